"""What a provider would refuse of a request, under the name that programs import it by."""

from weft.dialects.strict import RequestChecker, check_request

__all__ = ["RequestChecker", "check_request"]

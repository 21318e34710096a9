"""Find personal data and secrets in text, locally, by shape, checksum and table."""

from weft.detect.find import PLACEHOLDER as PLACEHOLDER
from weft.detect.find import Pattern as Pattern
from weft.detect.find import PatternTimeout as PatternTimeout
from weft.detect.find import check_patterns as check_patterns
from weft.detect.find import find as find
from weft.detect.find import pattern_of as pattern_of
from weft.detect.find import spell_pattern as spell_pattern
from weft.detect.kinds import GROUPS as GROUPS
from weft.detect.kinds import KINDS as KINDS
from weft.detect.kinds import Detection as Detection
from weft.detect.kinds import Detector as Detector
from weft.detect.kinds import add_detector as add_detector
from weft.detect.kinds import check_kinds as check_kinds
from weft.detect.kinds import kinds_named as kinds_named
from weft.detect.redaction import Redaction as Redaction
from weft.detect.redaction import mask_secrets as mask_secrets
from weft.detect.redaction import resolve_targets as resolve_targets
from weft.detect.redaction import restore_values as restore_values

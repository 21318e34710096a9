"""What may stand for a model in a declaration."""


def is_model(value: object) -> bool:
    """Whether this is a model's name, or an object that has a name and speaks a dialect."""
    if isinstance(value, str):
        return bool(value) and value == value.strip() and value.isprintable()
    return all(isinstance(getattr(value, name, None), str) for name in ("name", "dialect"))

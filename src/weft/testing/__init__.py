"""What users import in their tests."""

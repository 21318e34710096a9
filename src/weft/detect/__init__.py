"""Find personal data and secrets in text, locally, by shape, checksum and table."""

from weft.detect.find import PLACEHOLDER as PLACEHOLDER
from weft.detect.find import find as find
from weft.detect.kinds import GROUPS as GROUPS
from weft.detect.kinds import KINDS as KINDS
from weft.detect.kinds import Detector as Detector
from weft.detect.kinds import add_detector as add_detector
from weft.detect.kinds import check_kinds as check_kinds
from weft.detect.kinds import kinds_named as kinds_named
from weft.detect.patterns import Pattern as Pattern
from weft.detect.patterns import PatternTimeout as PatternTimeout
from weft.detect.patterns import check_patterns as check_patterns
from weft.detect.patterns import pattern_of as pattern_of
from weft.detect.patterns import spelled as spelled
from weft.detect.redaction import Redaction as Redaction
from weft.detect.redaction import restored as restored
from weft.detect.redaction import wanted as wanted
from weft.detect.spans import Detection as Detection

"""Near names, for the rules; `weft.misuse` has them, since the compiler hints at names too."""

from weft.misuse import close as close
from weft.misuse import few as few
from weft.misuse import meant as meant

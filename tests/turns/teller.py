"""An agent for worker processes that streams a sentence."""

from weft import Agent
from weft.testing import ScriptedModel

teller = Agent("teller", model=ScriptedModel(["Once upon a time there was a loom."] * 100))

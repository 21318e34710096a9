"""Recordings: sessions that were kept as files, ours or those of other programs.

`read.py` finds the format by its shape. Each family of formats has a file: `providers.py`,
`frameworks.py`, `vercel.py`, `coding.py`, `chats.py`, `runs.py` and `traces.py`; databases have
`databases.py`. `requests.py` reads a provider's request into a prompt. `accounting.py` looks
whether anything was lost, and `joining.py` makes conversations of the calls in a log.
`exchanges.py` has the calls as they were recorded, and `alignment.py` finds where each block of
them comes from.
"""

from weft.recordings.accounting import count_parts
from weft.recordings.alignment import exchanges_of
from weft.recordings.exchanges import BlockSource, ExchangeRecord, RecordedBlock
from weft.recordings.read import (
    FORMATS,
    files_in,
    from_messages,
    read_file,
    read_files,
    read_recordings,
)
from weft.recordings.recording import Aside, Recording, recording_of, way_to_apply

__all__ = [
    "FORMATS",
    "Aside",
    "BlockSource",
    "ExchangeRecord",
    "RecordedBlock",
    "Recording",
    "count_parts",
    "exchanges_of",
    "files_in",
    "from_messages",
    "read_file",
    "read_files",
    "read_recordings",
    "recording_of",
    "way_to_apply",
]

"""`weft store`: the version of the tables, one version on or back, a backup."""

import asyncio
import sys

from weft.cli.inputs import require_existing, require_folder
from weft.cli.options import CommandOptions
from weft.errors import UsageError
from weft.stores.upkeep import (
    StoreVersion,
    backup_store,
    downgrade_store,
    migrate_store,
    store_version,
)


def status_command(options: CommandOptions) -> int:
    """Say which version the tables have; 1 where something is to be done."""
    require_existing(options.address)
    version = asyncio.run(store_version(options.address))
    _say(version)
    return int(version.version < version.known)


def migrate_command(options: CommandOptions) -> int:
    """Make the tables, or bring them up to date."""
    _say(asyncio.run(migrate_store(options.address)))
    return 0


def downgrade_command(options: CommandOptions) -> int:
    """Take the tables back by one version, or say so."""
    require_existing(options.address)
    if not options.yes:
        _say(asyncio.run(store_version(options.address)))
        print("nothing was changed: end the processes of this version, add --yes", file=sys.stderr)
        return 0
    _say(asyncio.run(downgrade_store(options.address)))
    return 0


def backup_command(options: CommandOptions) -> int:
    """Copy a file of sessions while it is in use."""
    require_existing(options.address)
    if options.output is None:
        raise UsageError("where to?", where="store backup", hint="-o FILE")
    require_folder(options.output, "--output")
    size = asyncio.run(backup_store(options.address, options.output))
    print(f"wrote {options.output}: {size:,} bytes")
    return 0


def _say(version: StoreVersion) -> None:
    print(f"version {version.version} of {version.known}: {version.advice}")

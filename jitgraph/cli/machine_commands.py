"""Commands on this machine: cache info, cache clear, cache verify, doctor. Each imports what it needs itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jitgraph.cli import screen
from jitgraph.cli.failures import FAILS, CommandError
from jitgraph.cli.options import AsJson

if TYPE_CHECKING:
    from jitgraph.diagnosis import Diagnosis


def _folder() -> str:
    """The cache's folder; CommandError where there is none to speak of."""
    from jitgraph.runtime import disk_cache

    current = disk_cache.current()
    if current is None:
        raise CommandError("the cache is turned off: JITGRAPH_CACHE_DIR says so, or there is no home folder")
    if refused := current.refused():
        raise CommandError(f"the cache is not used, as {current.folder} is not safe: {refused}")
    return current.folder


def cache_info(json: AsJson = False) -> int:
    """Say where the compile cache is, and how full."""
    from jitgraph import cache

    folder, told = _folder(), cache.info()
    if json:
        screen.as_json({"folder": folder, "entries": told.entries, "bytes": told.bytes, "limit": told.limit})
    else:
        share = f"{100 * told.bytes / told.limit:.0f} % of {told.limit / 1e6:.0f} MB"
        rows = [("folder", folder), ("entries", str(told.entries)), ("size", f"{told.bytes / 1e6:.1f} MB, {share}")]
        screen.table(rows, styles=(screen.NAME,))
    return 0


def cache_clear(json: AsJson = False) -> int:
    """Remove every entry of the compile cache; programs compile again what they need."""
    from jitgraph import cache

    folder, before = _folder(), cache.info()
    with screen.progress("clearing"):
        cache.clear()
    after = cache.info()
    removed, freed = before.entries - after.entries, before.bytes - after.bytes
    if json:
        screen.as_json({"folder": folder, "removed": removed, "bytes": freed})
    else:
        screen.line(f"{removed} entries removed, {freed / 1e6:.1f} MB")
    if after.entries:
        raise CommandError(f"{after.entries} entries are left in {folder}, which this user may not remove")
    return 0


def cache_verify(json: AsJson = False) -> int:
    """Check the hash of every entry of the compile cache.

    The exit code is 1 where one is not sound.
    """
    from jitgraph import cache

    folder, told = _folder(), cache.info()
    with screen.progress("verifying"):
        unsound = cache.verify()
    if json:
        screen.as_json({"folder": folder, "entries": told.entries, "unsound": unsound})
        return FAILS if unsound else 0
    if unsound:
        screen.table([(entry.key[:12], entry.reason) for entry in unsound], ("entry", "what is wrong"))
        screen.line("jitgraph cache clear removes them, and all others")
        return FAILS
    screen.line(f"all {told.entries} entries are sound", screen.GOOD)
    return 0


def doctor(json: AsJson = False) -> int:
    """Say what of jitgraph works on this machine, and why the rest does not.

    The exit code is 1 where something fails.
    """
    from jitgraph.diagnosis import diagnose, works

    with screen.progress("looking"):
        findings = list(diagnose())
    if json:
        screen.as_json({"works": works(findings), "findings": findings})
    else:
        screen.table([_row(finding) for finding in findings], styles=(screen.NAME,))
    return 0 if works(findings) else FAILS


def _row(finding: Diagnosis) -> tuple[object, ...]:
    from jitgraph.diagnosis import ABSENT, WORKS

    styles = {WORKS: screen.GOOD, ABSENT: screen.FAINT}
    text = screen.cell(screen.one_line(finding.text))
    if finding.hint:
        text.append(f"\n{screen.clean(finding.hint)}", style=screen.FAINT)
    return finding.what, screen.cell(finding.outcome, styles.get(finding.outcome, screen.BAD)), text

"""Figures as people read them, alike in log, terminal and report: counts, durations, sizes, shares."""

from __future__ import annotations

import math
from datetime import UTC, datetime

_UNITS = (("d", 86400, "h", 3600), ("h", 3600, "min", 60), ("min", 60, "s", 1))


def count(number: float) -> str:
    """`12000` is `12 000`."""
    return f"{number:,.0f}".replace(",", " ") if math.isfinite(number) else str(number)


def large(number: float) -> str:
    """A count where there is little room: `12 000`, `450 million`, `4.00 billion`."""
    for unit, name in ((1e12, "trillion"), (1e9, "billion"), (1e6, "million")):
        if number >= max(unit, 1e8):
            return f"{figure(number / unit)} {name}"
    return count(number)


def plural(number: int, noun: str, nouns: str = "") -> str:
    """`1 worker`, `2 workers`."""
    return f"{count(number)} {noun if number == 1 else nouns or noun + 's'}"


def figure(value: float, digits: int = 3) -> str:
    """A metric or loss with so many significant digits: `0.974`, `12.3`, `1 235`, `1.2e-05`."""
    if not math.isfinite(value):
        return {math.inf: "∞", -math.inf: "-∞"}.get(value, "NaN")
    size = abs(value)
    if size >= 1e9 or 0 < size < 1e-4:
        return power(value, digits - 1)
    if size >= 10 ** (digits - 1):
        return count(value)
    return f"{value:.{digits - 1 - math.floor(math.log10(size))}f}" if size else "0"


def power(value: float, digits: int = 3) -> str:
    """A value of any size with little room: `1.2e-05`, `5e9`, `0.25`."""
    return f"{value:.{digits}g}".replace("e+0", "e").replace("e+", "e")


def duration(seconds: float) -> str:
    """`0.4 s`, `41 s`, `3 min 20 s`, `2 h 05 min`, `6 d 04 h`: two units at most."""
    seconds = max(0.0, seconds)
    if seconds < 9.95:
        return f"{seconds:.1f} s".replace(".0 s", " s")
    whole = round(seconds)
    for unit, length, part, part_length in _UNITS:
        if whole >= length:
            rest = whole % length // part_length
            return f"{whole // length} {unit} {rest:02d} {part}" if rest else f"{whole // length} {unit}"
    return f"{whole} s"


def size(number: float) -> str:
    """Bytes: `45 MB`."""
    units = ["B", "kB", "MB", "GB", "TB"]
    while number >= 999.5 and len(units) > 1:
        number /= 1000
        del units[0]
    return f"{number:.{0 if number >= 9.95 or units[0] == 'B' else 1}f} {units[0]}"


def percent(share: float) -> str:
    """`0.93` is `93 %`."""
    return f"{share * 100:.0f} %"


def moment(time: float) -> str:
    """A point in time, the same on every machine: `2020-04-14 02:46:40 UTC`."""
    return datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")

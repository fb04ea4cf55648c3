"""CRC-32C without an extension of our own: snappy's framing carries the very checksum that TFRecord uses.

Each frame of at most 64 KiB comes with the masked CRC-32C of its data. Checksums of longer data are put
together by arithmetic over GF(2), as zlib's `crc32_combine` does.
"""

from __future__ import annotations

import functools

import cramjam

_POLYNOMIAL = 0x82F63B78
_ONE = 1 << 31  # x^0, the bits being reflected
_MASK_DELTA = 0xA282EAD8
_FRAME_BYTES = 65536
_CHECKSUM_AT = 14  # behind the stream's identifier and the frame's header


def masked_crc32c(data: bytes) -> int:
    """The checksum as TFRecord and snappy store it."""
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + _MASK_DELTA) & 0xFFFFFFFF


def crc32c(data: bytes) -> int:
    """The plain checksum."""
    crc = 0
    for at in range(0, len(data), _FRAME_BYTES):
        block = data[at : at + _FRAME_BYTES]
        crc = _times(_shift(len(block)), crc) ^ _frame_crc32c(block)
    return crc


def _frame_crc32c(block: bytes) -> int:
    frame = bytes(cramjam.snappy.compress(block))
    masked = int.from_bytes(frame[_CHECKSUM_AT : _CHECKSUM_AT + 4], "little") - _MASK_DELTA & 0xFFFFFFFF
    return (masked >> 17 | masked << 15) & 0xFFFFFFFF


@functools.lru_cache
def _shift(size: int) -> int:
    """x to the power of the bits in `size` bytes: what appending them multiplies a checksum by."""
    power, square = _ONE, _ONE >> 8
    while size:
        if size & 1:
            power = _times(power, square)
        square = _times(square, square)
        size >>= 1
    return power


def _times(a: int, b: int) -> int:
    product = 0
    while a:
        if a & _ONE:
            product ^= b
        a = a << 1 & 0xFFFFFFFF
        b = b >> 1 ^ (_POLYNOMIAL if b & 1 else 0)
    return product

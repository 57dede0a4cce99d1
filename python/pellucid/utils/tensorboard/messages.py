"""TensorBoard's records: protobuf messages and TFRecord frames, written by hand.

A frame is the length, a masked CRC-32C of the length, the message, a masked CRC-32C of the message.
"""
import struct
import zlib


def _crc_table():
    table = []
    for value in range(256):
        for _ in range(8):
            value = (value >> 1) ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return table


_TABLE = _crc_table()


def crc32c(data):
    """CRC-32C (Castagnoli)."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


def frame(message):
    """The message as a record of the file."""
    masked = lambda data: struct.pack("<I", ((crc32c(data) >> 15 | crc32c(data) << 17) + 0xA282EAD8) & 0xFFFFFFFF)
    length = struct.pack("<Q", len(message))
    return length + masked(length) + message + masked(message)


# Protobuf's wire format: a key (field << 3 | kind), then the value.

def _varint(value):
    value &= 0xFFFFFFFFFFFFFFFF
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def integer(field, value):
    return _varint(field << 3) + _varint(value)


def double(field, value):
    return _varint(field << 3 | 1) + struct.pack("<d", value)


def single(field, value):
    return _varint(field << 3 | 5) + struct.pack("<f", value)


def text(field, value):
    data = value.encode() if isinstance(value, str) else value
    return _varint(field << 3 | 2) + _varint(len(data)) + data


def doubles(field, values):
    return text(field, struct.pack(f"<{len(values)}d", *values))


def event(wall_time, step, summary):
    """An Event with a Summary of one value."""
    return double(1, wall_time) + integer(2, step) + text(5, text(1, summary))


def scalar(tag, value):
    return text(1, tag) + single(2, value)


def histogram(tag, low, high, count, total, squares, limits, counts):
    message = (double(1, low) + double(2, high) + double(3, count) + double(4, total) + double(5, squares)
               + doubles(6, limits) + doubles(7, counts))
    return text(1, tag) + text(5, message)


def image(tag, height, width, channels, data):
    return text(1, tag) + text(4, integer(1, height) + integer(2, width) + integer(3, channels) + text(4, data))


def words(tag, value):
    plugin = text(1, text(1, "text"))
    tensor = integer(1, 7) + text(2, text(2, integer(1, 1))) + text(8, value)  # a string tensor of one element
    return text(1, tag + "/text_summary") + text(8, tensor) + text(9, plugin)


def png(rows, width, height, channels):
    """Bytes [height, width * channels] as a PNG file; 1 channel is grey, 3 colour, 4 with opacity."""
    kind = {1: 0, 3: 2, 4: 6}[channels]
    raw = b"".join(b"\0" + rows[y * width * channels:(y + 1) * width * channels] for y in range(height))
    chunk = lambda name, data: struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, kind, 0, 0, 0))
            + chunk(b"IDAT", zlib.compress(raw)) + chunk(b"IEND", b""))

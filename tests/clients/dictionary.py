"""dictionary.py CODING [DICTIONARY] < BODY: the content of a body in `dcb` or `dcz` (RFC 9842) by a
dictionary, or in `br` or `zstd` without.

By Google's decoder of brotli, out of the module of PyPI, whose Python has no dictionaries, and by
zstandard; neither shares code with what compressed the body."""

import ctypes
import hashlib
import sys

import _brotli
import zstandard

STARTS = {"dcb": bytes.fromhex("ff444342"), "dcz": bytes.fromhex("5e2a4d1820000000")}
# The largest window that clients have to take for dictionaries of these sizes, in bytes.
WINDOW = 8 << 20
SUCCESS, MORE_OUTPUT = 1, 3


def brotli(stream, dictionary):
    lib = ctypes.CDLL(_brotli.__file__)
    lib.BrotliDecoderCreateInstance.restype = ctypes.c_void_p
    state = ctypes.c_void_p(lib.BrotliDecoderCreateInstance(None, None, None))
    # 0: the dictionary is raw.
    attached = lib.BrotliDecoderAttachDictionary(state, 0, ctypes.c_size_t(len(dictionary)), dictionary)
    assert attached == 1, "the dictionary is not taken"
    left = ctypes.c_size_t(len(stream))
    at = ctypes.cast(ctypes.create_string_buffer(stream, len(stream)), ctypes.c_void_p)
    out = bytearray()
    while True:
        piece = ctypes.create_string_buffer(1 << 16)
        room, into = ctypes.c_size_t(len(piece)), ctypes.cast(piece, ctypes.c_void_p)
        result = lib.BrotliDecoderDecompressStream(
            state, ctypes.byref(left), ctypes.byref(at), ctypes.byref(room), ctypes.byref(into), None
        )
        out += piece.raw[: len(piece) - room.value]
        if result == SUCCESS:
            assert left.value == 0, "bytes behind the stream"
            return bytes(out)
        assert result == MORE_OUTPUT, f"the stream is damaged: {result}"


def zstd(stream, dictionary):
    known = zstandard.ZstdCompressionDict(dictionary, dict_type=zstandard.DICT_TYPE_RAWCONTENT)
    decoder = zstandard.ZstdDecompressor(dict_data=known, max_window_size=WINDOW)
    return decoder.decompress(stream, allow_extra_data=False)


def plain(coding, body):
    if coding == "br":
        decoder = _brotli.Decompressor()
        content = decoder.process(body)
        assert decoder.is_finished(), "the stream is cut"
        return content
    decoder = zstandard.ZstdDecompressor(max_window_size=WINDOW).decompressobj()
    content = decoder.decompress(body)
    assert decoder.eof and not decoder.unused_data, "the frame is cut, or is not alone"
    return content


def main():
    coding = sys.argv[1]
    if coding in ("br", "zstd"):
        sys.stdout.buffer.write(plain(coding, sys.stdin.buffer.read()))
        return
    path = sys.argv[2]
    with open(path, "rb") as file:
        dictionary = file.read()
    body = sys.stdin.buffer.read()
    start = STARTS[coding] + hashlib.sha256(dictionary).digest()
    assert body.startswith(start), f"it begins with {body[:40].hex()}, not with {start.hex()}"
    decode = {"dcb": brotli, "dcz": zstd}[coding]
    sys.stdout.buffer.write(decode(body[len(start) :], dictionary))


main()

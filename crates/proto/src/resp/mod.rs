//! RESP2 and RESP3, the language of Redis. Bytes in, commands out; replies in, bytes out. No I/O.

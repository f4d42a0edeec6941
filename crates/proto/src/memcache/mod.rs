//! The memcached protocols: text, meta and binary. Bytes in, commands out; replies in, bytes out. No I/O.

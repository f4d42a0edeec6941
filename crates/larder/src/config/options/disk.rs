//! `[disk]`.

use super::{Kind, Opt, TIB, opt, required};

pub(super) const DISK: &[Opt] = &[
    required(
        "path",
        Kind::File,
        "The directory. It is made where there is none, for its owner alone; one Larder uses it. \
         Its files belong to Larder.",
    ),
    required(
        "size",
        Kind::Size(larder_disk::LEAST, larder_disk::MOST),
        "Bytes of all its files. The index has about 23 bytes of memory for each page, beside \
         `memory`.",
    ),
    opt(
        "patience",
        Kind::Time(1, 60_000),
        "100ms",
        "A read that takes longer is left to itself, and the next tier or the origin is asked.",
    ),
    opt(
        "write_limit",
        Kind::Size(0, 64 * TIB),
        "0",
        "Bytes written per second, on average: it decides how long a device lives. Pages beyond \
         it are not written. 0: no limit.",
    ),
];

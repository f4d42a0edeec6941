//! `[tracing]`.

use super::{Kind, Opt, opt, required};

pub(super) const TRACING: &[Opt] = &[
    required(
        "endpoint",
        Kind::Text,
        "The collector's URL for traces, OTLP over HTTP: `http://127.0.0.1:4318/v1/traces`.",
    ),
    opt("service", Kind::Text, "larder", "The spans' `service.name`."),
    opt(
        "one_in",
        Kind::Count(0, 1_000_000_000),
        "1000",
        "One in this many requests without `traceparent` begins a trace; 0: none. Requests with \
         one follow its sender's choice.",
    ),
];

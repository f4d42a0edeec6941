//! `[tracing]`: the collector of spans.

/// The collector, and the choice of recorded requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TracingSettings {
    /// Host name or address of the collector, brackets of an IPv6 address removed. OTLP over plain
    /// HTTP.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// Its path for traces: `/v1/traces`.
    pub path: String,
    /// The spans' `service.name`.
    pub service: String,
    /// Requests without a trace per new trace; 0: none begins one.
    pub one_in: u64,
}

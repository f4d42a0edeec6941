//! `[tracing]`: where spans go.

/// The collector, and which requests it is told of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TracingSettings {
    /// Host name or address of the collector, brackets of an IPv6 address removed. OTLP over plain
    /// HTTP.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// Where it takes traces: `/v1/traces`.
    pub path: String,
    /// What the spans' `service.name` says.
    pub service: String,
    /// Of requests that belong to no trace yet, one in so many begins one; 0: none does.
    pub one_in: u64,
}

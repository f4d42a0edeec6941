//! Targeted cache control (RFC 9213): structured-field dictionaries (RFC 8941).

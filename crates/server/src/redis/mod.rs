//! The Redis face: RESP2 and RESP3 over the one store.

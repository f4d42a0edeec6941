//! What every face shares on the wire: what is to be sent, and the socket with its deadline.

pub(crate) mod out;
pub(crate) mod socket;

//! The protocols that clients speak. Each owns its bytes; a response is composed by calls that name
//! no protocol.

pub(crate) mod h1;
pub(crate) mod meta;

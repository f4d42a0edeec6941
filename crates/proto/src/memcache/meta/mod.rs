//! The meta protocol (protocol.txt, "Meta Commands"). One file per verb.

/// `mg <key> <flags>*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Get<'a> {
    /// Which.
    pub key: &'a [u8],
}
/// `ms <key> <datalen> <flags>*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Set<'a> {
    /// Which.
    pub key: &'a [u8],
}
/// `md <key> <flags>*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delete<'a> {
    /// Which.
    pub key: &'a [u8],
}
/// `ma <key> <flags>*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count<'a> {
    /// Which.
    pub key: &'a [u8],
}
/// `me <key> <flags>*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Debug<'a> {
    /// Which.
    pub key: &'a [u8],
}

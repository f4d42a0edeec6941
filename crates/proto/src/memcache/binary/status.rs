//! Status of a response, with the texts of memcached 1.6.18.

/// A response's status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Status {
    /// Done.
    Ok = 0x00,
    /// The key does not exist.
    NotFound = 0x01,
    /// The key exists, or has another version.
    Exists = 0x02,
    /// Larger than an item may be.
    TooLarge = 0x03,
    /// Lengths that do not fit the command.
    Invalid = 0x04,
    /// Nothing to append to.
    NotStored = 0x05,
    /// The stored value is not a number.
    NotNumber = 0x06,
    /// The client is not authorised.
    AuthError = 0x20,
    /// The authentication continues with another step.
    AuthContinue = 0x21,
    /// No such command.
    Unknown = 0x81,
    /// No memory.
    NoMemory = 0x82,
}

impl Status {
    /// Every status.
    const ALL: [Status; 11] = [
        Status::Ok,
        Status::NotFound,
        Status::Exists,
        Status::TooLarge,
        Status::Invalid,
        Status::NotStored,
        Status::NotNumber,
        Status::AuthError,
        Status::AuthContinue,
        Status::Unknown,
        Status::NoMemory,
    ];

    /// The status with this number, if memcached sends it.
    pub fn of(number: u16) -> Option<Status> {
        Status::ALL.into_iter().find(|status| *status as u16 == number)
    }

    /// The body of a response with this status.
    pub fn text(self) -> &'static str {
        match self {
            Status::Ok | Status::AuthContinue => "",
            Status::NotFound => "Not found",
            Status::Exists => "Data exists for key.",
            Status::TooLarge => "Too large.",
            Status::Invalid => "Invalid arguments",
            Status::NotStored => "Not stored.",
            Status::NotNumber => "Non-numeric server-side value for incr or decr",
            Status::AuthError => "Auth failure.",
            Status::Unknown => "Unknown command",
            Status::NoMemory => "Out of memory",
        }
    }
}

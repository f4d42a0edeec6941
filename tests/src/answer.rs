//! An HTTP/1 answer as it came, and its header fields.

/// Header fields in order, names as sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fields(pub Vec<(String, String)>);

impl Fields {
    /// First value of that name.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, v)| v.as_str())
    }

    /// Every value of that name, in order.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, v)| v.as_str())
    }

    /// All values of that name joined by `, `, as RFC 9110 5.3 allows.
    pub fn joined(&self, name: &str) -> String {
        self.all(name).collect::<Vec<_>>().join(", ")
    }

    /// Parses the lines between start line and empty line. Strict (RFC 9112 5): no folding, no
    /// space before the colon.
    pub fn parse(lines: &str) -> Result<Fields, String> {
        lines
            .split("\r\n")
            .filter(|line| !line.is_empty())
            .map(field)
            .collect::<Result<_, _>>()
            .map(Fields)
    }
}

fn field(line: &str) -> Result<(String, String), String> {
    let (name, value) =
        line.split_once(':').ok_or_else(|| format!("field line without a colon: {line:?}"))?;
    let token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    if name.is_empty() || !name.chars().all(token) {
        return Err(format!("field name is no token: {line:?}"));
    }
    if value.contains(['\r', '\n', '\0']) {
        return Err(format!("control character in a field value: {line:?}"));
    }
    Ok((name.to_owned(), value.trim_matches([' ', '\t']).to_owned()))
}

/// A whole answer.
#[derive(Clone, PartialEq, Eq)]
pub struct Answer {
    /// The status line without its end, as sent.
    pub status_line: String,
    /// Its three digits.
    pub status: u16,
    /// The header fields.
    pub fields: Fields,
    /// The content, chunked coding removed.
    pub body: Vec<u8>,
    /// Trailer fields of a chunked answer.
    pub trailers: Fields,
    /// Whether it was chunked.
    pub chunked: bool,
    /// Interim answers (1xx) that came before it: status and fields.
    pub interim: Vec<(u16, Fields)>,
}

impl std::fmt::Debug for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {:?} {}", self.status_line, self.fields.0, crate::wire::excerpt(&self.body))?;
        write!(
            f,
            " trailers {:?} chunked {} interim {:?}",
            self.trailers.0, self.chunked, self.interim
        )
    }
}

impl Answer {
    /// First value of a header field.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.fields.get(name)
    }

    /// The body as text.
    #[track_caller]
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap_or_else(|_| panic!("the body is no text: {self:?}"))
    }

    /// `Age`, when it is there and a number.
    pub fn age(&self) -> Option<u64> {
        self.get("age")?.parse().ok()
    }

    /// Whether `Cache-Status` says that this came from the store without a forward (RFC 9211 2.1).
    pub fn is_hit(&self) -> bool {
        self.cache_status_has("hit")
    }

    /// Whether our member of `Cache-Status` (the last one) has this parameter: `hit`, `stored`,
    /// `fwd=stale`.
    pub fn cache_status_has(&self, parameter: &str) -> bool {
        let all = self.fields.joined("cache-status");
        let ours = all.rsplit(',').next().unwrap_or_default();
        ours.split(';').skip(1).any(|p| p.trim() == parameter)
    }

    /// Fails unless it was a hit with status 200.
    #[track_caller]
    pub fn assert_hit(&self) -> &Self {
        assert!(self.status == 200 && self.is_hit(), "not a hit: {self:?}");
        self
    }

    /// Fails unless it went to the origin.
    #[track_caller]
    pub fn assert_forwarded(&self) -> &Self {
        assert!(self.fields.joined("cache-status").contains("fwd="), "not forwarded: {self:?}");
        self
    }

    /// Fails unless the status is this one.
    #[track_caller]
    pub fn assert_status(&self, status: u16) -> &Self {
        assert_eq!(self.status, status, "{self:?}");
        self
    }
}

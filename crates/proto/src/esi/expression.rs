//! Conditions: `$(HTTP_COOKIE{group})=='staff' & !($(QUERY_STRING{plain}))`.
//!
//! ```text
//! or         = and *( ( "|" / "||" ) and )
//! and        = not *( ( "&" / "&&" ) not )
//! not        = "!" not / "(" or ")" / comparison
//! comparison = operand [ ( "==" / "!=" / "<=" / ">=" / "<" / ">" ) operand ]
//! operand    = variable / "'" text "'" / number
//! ```

use std::{borrow::Cow, cmp::Ordering};

use super::{Facts, Variable};

/// A condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expression {
    /// The operand has a value that is neither empty nor `false`.
    Is(Operand),
    /// Two operands compared: as numbers, if both are; else byte by byte. False where one has no
    /// value.
    Compare(Operand, Comparison, Operand),
    /// The opposite.
    Not(Box<Expression>),
    /// Both.
    And(Box<Expression>, Box<Expression>),
    /// One or both.
    Or(Box<Expression>, Box<Expression>),
}

/// One side of a comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operand {
    /// A text or a number.
    Text(Box<[u8]>),
    /// The value of a variable.
    Variable(Variable),
}

/// The operators between two operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// `==`
    Equal,
    /// `!=`
    Different,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
}

/// Longest text of a condition, in bytes.
const MAX_LENGTH: usize = 4096;
/// Conditions may lie within each other this deep.
const MAX_DEPTH: usize = 16;
/// Most comparisons of a condition: each makes it one deeper.
const MAX_COMPARISONS: usize = 32;

impl Expression {
    /// Reads a condition; None: it is none.
    pub fn parse(text: &[u8]) -> Option<Self> {
        if text.len() > MAX_LENGTH {
            return None;
        }
        let mut reader = Reader { rest: text, comparisons: 0 };
        let expression = reader.or(0)?;
        reader.skip_blanks();
        reader.rest.is_empty().then_some(expression)
    }

    /// Whether it holds for a request.
    pub fn holds(&self, facts: &Facts<'_>) -> bool {
        match self {
            Self::Is(operand) => {
                operand.get(facts).is_some_and(|value| !value.is_empty() && *value != b"false"[..])
            }
            Self::Compare(left, comparison, right) => match (left.get(facts), right.get(facts)) {
                (Some(left), Some(right)) => comparison.holds(compare(&left, &right)),
                _ => false,
            },
            Self::Not(of) => !of.holds(facts),
            Self::And(left, right) => left.holds(facts) && right.holds(facts),
            Self::Or(left, right) => left.holds(facts) || right.holds(facts),
        }
    }
}

impl Operand {
    fn get<'v>(&'v self, facts: &Facts<'v>) -> Option<Cow<'v, [u8]>> {
        match self {
            Self::Text(text) => Some(Cow::Borrowed(text)),
            Self::Variable(variable) => variable.get(facts),
        }
    }
}

fn compare(left: &[u8], right: &[u8]) -> Ordering {
    let number = |text: &[u8]| std::str::from_utf8(text).ok()?.parse::<i64>().ok();
    match (number(left), number(right)) {
        (Some(left), Some(right)) => left.cmp(&right),
        _ => left.cmp(right),
    }
}

impl Comparison {
    fn holds(self, ordering: Ordering) -> bool {
        match self {
            Self::Equal => ordering.is_eq(),
            Self::Different => ordering.is_ne(),
            Self::Less => ordering.is_lt(),
            Self::LessOrEqual => ordering.is_le(),
            Self::Greater => ordering.is_gt(),
            Self::GreaterOrEqual => ordering.is_ge(),
        }
    }
}

struct Reader<'t> {
    rest: &'t [u8],
    comparisons: usize,
}

impl Reader<'_> {
    fn skip_blanks(&mut self) {
        self.rest = self.rest.trim_ascii_start();
    }

    /// Takes `word` if it comes next.
    fn takes(&mut self, word: &[u8]) -> bool {
        self.skip_blanks();
        let after = self.rest.strip_prefix(word);
        self.rest = after.unwrap_or(self.rest);
        after.is_some()
    }

    fn or(&mut self, depth: usize) -> Option<Expression> {
        let mut left = self.and(depth)?;
        while self.takes(b"||") || self.takes(b"|") {
            left = Expression::Or(Box::new(left), Box::new(self.and(depth)?));
        }
        Some(left)
    }

    fn and(&mut self, depth: usize) -> Option<Expression> {
        let mut left = self.not(depth)?;
        while self.takes(b"&&") || self.takes(b"&") {
            left = Expression::And(Box::new(left), Box::new(self.not(depth)?));
        }
        Some(left)
    }

    fn not(&mut self, depth: usize) -> Option<Expression> {
        if depth == MAX_DEPTH {
            return None;
        }
        if self.takes(b"!") {
            return Some(Expression::Not(Box::new(self.not(depth + 1)?)));
        }
        if self.takes(b"(") {
            let inner = self.or(depth + 1)?;
            return self.takes(b")").then_some(inner);
        }
        self.comparisons += 1;
        if self.comparisons > MAX_COMPARISONS {
            return None;
        }
        let left = self.operand()?;
        let comparison = [
            (&b"=="[..], Comparison::Equal),
            (b"!=", Comparison::Different),
            (b"<=", Comparison::LessOrEqual),
            (b">=", Comparison::GreaterOrEqual),
            (b"<", Comparison::Less),
            (b">", Comparison::Greater),
        ]
        .into_iter()
        .find(|(word, _)| self.takes(word));
        match comparison {
            Some((_, comparison)) => Some(Expression::Compare(left, comparison, self.operand()?)),
            None => Some(Expression::Is(left)),
        }
    }

    fn operand(&mut self) -> Option<Operand> {
        self.skip_blanks();
        if let Some((variable, used)) = Variable::parse(self.rest) {
            self.rest = &self.rest[used..];
            return Some(Operand::Variable(variable));
        }
        if let Some(text) = self.rest.strip_prefix(b"'") {
            let end = text.iter().position(|&b| b == b'\'')?;
            self.rest = &text[end + 1..];
            return Some(Operand::Text(text[..end].into()));
        }
        let sign = usize::from(self.rest.first() == Some(&b'-'));
        let digits = self.rest[sign..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (number, rest) = self.rest.split_at(sign + digits);
        self.rest = rest;
        (digits > 0).then(|| Operand::Text(number.into()))
    }
}

//! The bytes of a plan: one tag for each node, numbers of four bytes (little endian), texts with
//! their length.
//!
//! Bytes from another server are read too: nothing in them is believed that was not checked.

use super::{
    Comparison, Damaged, Expression, Include, MAX_NESTING, Node, Operand, Piece, Plan, Value,
    Variable,
};

/// Version of the format.
const VERSION: u8 = 1;
/// Lists within lists: elements and their conditions.
const MAX_DEPTH: usize = 2 * MAX_NESTING + 64;

const COMPARISONS: [Comparison; 6] = [
    Comparison::Equal,
    Comparison::Different,
    Comparison::Less,
    Comparison::LessOrEqual,
    Comparison::Greater,
    Comparison::GreaterOrEqual,
];

impl Plan {
    /// The bytes that are kept behind the page.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        write_nodes(&self.nodes, &mut out);
        out
    }

    /// Reads the plan of a page of `length` bytes.
    pub fn decode(bytes: &[u8], length: u64) -> Result<Self, Damaged> {
        let mut reader = Reader { rest: bytes, length };
        if reader.byte()? != VERSION {
            return Err(Damaged);
        }
        let nodes = reader.nodes(0)?;
        if reader.rest.is_empty() { Ok(Self { nodes }) } else { Err(Damaged) }
    }
}

fn write_number(number: usize, out: &mut Vec<u8>) {
    // No list and no text is longer than the page, which is shorter than 4 GiB.
    out.extend_from_slice(&(number as u32).to_le_bytes());
}

fn write_text(text: &[u8], out: &mut Vec<u8>) {
    write_number(text.len(), out);
    out.extend_from_slice(text);
}

fn write_option<T>(option: Option<T>, out: &mut Vec<u8>, write: impl FnOnce(T, &mut Vec<u8>)) {
    out.push(u8::from(option.is_some()));
    if let Some(value) = option {
        write(value, out);
    }
}

fn write_nodes(nodes: &[Node], out: &mut Vec<u8>) {
    write_number(nodes.len(), out);
    for node in nodes {
        match node {
            Node::Text(from, to) => {
                out.push(0);
                out.extend_from_slice(&from.to_le_bytes());
                out.extend_from_slice(&to.to_le_bytes());
            }
            Node::Vars(value) => {
                out.push(1);
                write_value(value, out);
            }
            Node::Include(include) => {
                out.push(2);
                write_value(&include.src, out);
                write_option(include.alt.as_ref(), out, write_value);
                out.push(u8::from(include.continues));
                let number = |number: u32, out: &mut Vec<u8>| write_number(number as usize, out);
                write_option(include.ttl, out, number);
                write_option(include.grace, out, number);
            }
            Node::Try(attempt, except) => {
                out.push(3);
                write_nodes(attempt, out);
                write_nodes(except, out);
            }
            Node::Choose(branches) => {
                out.push(4);
                write_number(branches.len(), out);
                for (test, nodes) in branches {
                    write_option(test.as_ref(), out, write_expression);
                    write_nodes(nodes, out);
                }
            }
            Node::Inline(name, nodes) => {
                out.push(5);
                write_text(name, out);
                write_nodes(nodes, out);
            }
        }
    }
}

fn write_value(value: &Value, out: &mut Vec<u8>) {
    write_number(value.pieces.len(), out);
    for piece in &value.pieces {
        match piece {
            Piece::Text(text) => {
                out.push(0);
                write_text(text, out);
            }
            Piece::Variable(variable) => {
                out.push(1);
                write_variable(variable, out);
            }
        }
    }
}

fn write_variable(variable: &Variable, out: &mut Vec<u8>) {
    write_text(&variable.name, out);
    write_option(variable.key.as_deref(), out, write_text);
    write_option(variable.default.as_deref(), out, write_text);
}

fn write_operand(operand: &Operand, out: &mut Vec<u8>) {
    match operand {
        Operand::Text(text) => {
            out.push(0);
            write_text(text, out);
        }
        Operand::Variable(variable) => {
            out.push(1);
            write_variable(variable, out);
        }
    }
}

fn write_expression(expression: &Expression, out: &mut Vec<u8>) {
    match expression {
        Expression::Is(operand) => {
            out.push(0);
            write_operand(operand, out);
        }
        Expression::Compare(left, comparison, right) => {
            out.push(1);
            write_operand(left, out);
            let at = COMPARISONS.iter().position(|known| known == comparison);
            out.push(at.unwrap_or_default() as u8);
            write_operand(right, out);
        }
        Expression::Not(of) => {
            out.push(2);
            write_expression(of, out);
        }
        Expression::And(left, right) | Expression::Or(left, right) => {
            out.push(if matches!(expression, Expression::And(..)) { 3 } else { 4 });
            write_expression(left, out);
            write_expression(right, out);
        }
    }
}

struct Reader<'b> {
    rest: &'b [u8],
    /// Of the page.
    length: u64,
}

impl Reader<'_> {
    fn byte(&mut self) -> Result<u8, Damaged> {
        let (first, rest) = self.rest.split_first().ok_or(Damaged)?;
        self.rest = rest;
        Ok(*first)
    }

    fn number(&mut self) -> Result<u32, Damaged> {
        let (first, rest) = self.rest.split_first_chunk().ok_or(Damaged)?;
        self.rest = rest;
        Ok(u32::from_le_bytes(*first))
    }

    fn text(&mut self) -> Result<Box<[u8]>, Damaged> {
        let length = self.number()? as usize;
        let (text, rest) = self.rest.split_at_checked(length).ok_or(Damaged)?;
        self.rest = rest;
        Ok(text.into())
    }

    fn option<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, Damaged>,
    ) -> Result<Option<T>, Damaged> {
        match self.byte()? {
            0 => Ok(None),
            1 => read(self).map(Some),
            _ => Err(Damaged),
        }
    }

    /// A list, whose entries take a byte at least.
    fn list<T>(
        &mut self,
        mut read: impl FnMut(&mut Self) -> Result<T, Damaged>,
    ) -> Result<Vec<T>, Damaged> {
        let count = self.number()? as usize;
        if count > self.rest.len() {
            return Err(Damaged);
        }
        (0..count).map(|_| read(self)).collect()
    }

    fn nodes(&mut self, depth: usize) -> Result<Vec<Node>, Damaged> {
        if depth > MAX_DEPTH {
            return Err(Damaged);
        }
        self.list(|reader| reader.node(depth + 1))
    }

    fn node(&mut self, depth: usize) -> Result<Node, Damaged> {
        Ok(match self.byte()? {
            0 => {
                let (from, to) = (self.number()?, self.number()?);
                if from > to || u64::from(to) > self.length {
                    return Err(Damaged);
                }
                Node::Text(from, to)
            }
            1 => Node::Vars(self.value()?),
            2 => Node::Include(Include {
                src: self.value()?,
                alt: self.option(Self::value)?,
                continues: self.byte()? != 0,
                ttl: self.option(Self::number)?,
                grace: self.option(Self::number)?,
            }),
            3 => Node::Try(self.nodes(depth)?, self.nodes(depth)?),
            4 => Node::Choose(self.list(|reader| {
                let test = reader.option(|reader| reader.expression(0))?;
                Ok((test, reader.nodes(depth)?))
            })?),
            5 => Node::Inline(self.text()?, self.nodes(depth)?),
            _ => return Err(Damaged),
        })
    }

    fn value(&mut self) -> Result<Value, Damaged> {
        let pieces = self.list(|reader| {
            Ok(match reader.byte()? {
                0 => Piece::Text(reader.text()?),
                1 => Piece::Variable(reader.variable()?),
                _ => return Err(Damaged),
            })
        })?;
        Ok(Value { pieces })
    }

    fn variable(&mut self) -> Result<Variable, Damaged> {
        Ok(Variable {
            name: self.text()?,
            key: self.option(Self::text)?,
            default: self.option(Self::text)?,
        })
    }

    fn operand(&mut self) -> Result<Operand, Damaged> {
        Ok(match self.byte()? {
            0 => Operand::Text(self.text()?),
            1 => Operand::Variable(self.variable()?),
            _ => return Err(Damaged),
        })
    }

    fn expression(&mut self, depth: usize) -> Result<Expression, Damaged> {
        if depth > MAX_DEPTH {
            return Err(Damaged);
        }
        Ok(match self.byte()? {
            0 => Expression::Is(self.operand()?),
            1 => {
                let left = self.operand()?;
                let comparison = COMPARISONS.get(usize::from(self.byte()?)).ok_or(Damaged)?;
                Expression::Compare(left, *comparison, self.operand()?)
            }
            2 => Expression::Not(self.deeper(depth)?),
            3 => Expression::And(self.deeper(depth)?, self.deeper(depth)?),
            4 => Expression::Or(self.deeper(depth)?, self.deeper(depth)?),
            _ => return Err(Damaged),
        })
    }

    fn deeper(&mut self, depth: usize) -> Result<Box<Expression>, Damaged> {
        self.expression(depth + 1).map(Box::new)
    }
}

//! Positions on the earth as scores of sorted sets (Redis: `geohash.c`, `geohash_helper.c`): the
//! bits of latitude and longitude, one after the other, 26 of each.

/// Greatest longitude, in degrees.
pub const MAX_LONGITUDE: f64 = 180.0;
/// Greatest latitude (EPSG:900913), in degrees.
pub const MAX_LATITUDE: f64 = 85.051_128_78;
/// Radius of the earth in metres.
const EARTH: f64 = 6_372_797.560_856;
const MERCATOR: f64 = 20_037_726.37;
/// Bits of each coordinate of a score.
const STEPS: u8 = 26;
const EVEN: u64 = 0x5555_5555_5555_5555;
const ODD: u64 = 0xaaaa_aaaa_aaaa_aaaa;

/// A position in degrees.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Position {
    /// East is positive.
    pub longitude: f64,
    /// North is positive.
    pub latitude: f64,
}

/// A rectangle of the grid: its bits, and how many of each coordinate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cell {
    bits: u64,
    steps: u8,
}

/// Sides of a rectangle, in degrees.
#[derive(Clone, Copy, Debug)]
struct Area {
    west: f64,
    east: f64,
    south: f64,
    north: f64,
}

/// The area of a search, in metres.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Shape {
    /// Around a position, up to this distance.
    Circle(f64),
    /// Around a position: width and height.
    Box(f64, f64),
}

impl Position {
    /// Is it in the range of coordinates?
    pub fn is_valid(self) -> bool {
        self.longitude.abs() <= MAX_LONGITUDE && self.latitude.abs() <= MAX_LATITUDE
    }

    /// Its score.
    pub fn score(self) -> f64 {
        self.cell(STEPS).bits as f64
    }

    fn cell(self, steps: u8) -> Cell {
        let bits = bits(self, (MAX_LONGITUDE, MAX_LATITUDE), steps);
        Cell { bits, steps }
    }

    /// The position of a score.
    pub fn of_score(score: f64) -> Position {
        let bits = score as u64;
        let area = Cell { bits, steps: STEPS }.area();
        let middle = |low: f64, high: f64, most: f64| ((low + high) / 2.0).clamp(-most, most);
        Position {
            longitude: middle(area.west, area.east, MAX_LONGITUDE),
            latitude: middle(area.south, area.north, MAX_LATITUDE),
        }
    }

    /// Its geohash: 11 characters, of which the last is always 0.
    pub fn geohash(self) -> [u8; 11] {
        const LETTERS: &[u8; 32] = b"0123456789bcdefghjkmnpqrstuvwxyz";
        let bits = bits(self, (180.0, 90.0), STEPS);
        let mut text = [b'0'; 11];
        for (nth, letter) in text.iter_mut().take(10).enumerate() {
            *letter = LETTERS[(bits >> (52 - (nth + 1) * 5) & 0x1f) as usize];
        }
        text
    }

    /// Distance to another position in metres (haversine).
    pub fn distance(self, other: Position) -> f64 {
        let v = ((radians(other.longitude) - radians(self.longitude)) / 2.0).sin();
        if v == 0.0 {
            return latitude_distance(self.latitude, other.latitude);
        }
        let (own, others) = (radians(self.latitude), radians(other.latitude));
        let u = ((others - own) / 2.0).sin();
        let a = u * u + own.cos() * others.cos() * v * v;
        2.0 * EARTH * a.sqrt().asin()
    }
}

/// The interleaved bits of a position, each coordinate within its range on both sides of 0.
fn bits(position: Position, most: (f64, f64), steps: u8) -> u64 {
    let scaled = |value: f64, most: f64| {
        let offset = (value + most) / (most + most);
        (offset * (1u64 << steps) as f64) as u32
    };
    let (x, y) = (scaled(position.latitude, most.1), scaled(position.longitude, most.0));
    spread(x) | spread(y) << 1
}

/// The bits of a number at the even places.
fn spread(bits: u32) -> u64 {
    let mut bits = u64::from(bits);
    for (shift, mask) in [
        (16, 0x0000_ffff_0000_ffff),
        (8, 0x00ff_00ff_00ff_00ff),
        (4, 0x0f0f_0f0f_0f0f_0f0f),
        (2, 0x3333_3333_3333_3333),
        (1, EVEN),
    ] {
        bits = (bits | bits << shift) & mask;
    }
    bits
}

/// The bits at the even places as a number.
fn gather(bits: u64) -> u32 {
    let mut bits = bits & EVEN;
    for (shift, mask) in [
        (1, 0x3333_3333_3333_3333),
        (2, 0x0f0f_0f0f_0f0f_0f0f),
        (4, 0x00ff_00ff_00ff_00ff),
        (8, 0x0000_ffff_0000_ffff),
        (16, 0x0000_0000_ffff_ffff),
    ] {
        bits = (bits | bits >> shift) & mask;
    }
    bits as u32
}

fn radians(degrees: f64) -> f64 {
    degrees * (std::f64::consts::PI / 180.0)
}

fn degrees(radians: f64) -> f64 {
    radians / (std::f64::consts::PI / 180.0)
}

fn latitude_distance(one: f64, other: f64) -> f64 {
    EARTH * (radians(other) - radians(one)).abs()
}

impl Cell {
    fn area(self) -> Area {
        let (latitude, longitude) = (gather(self.bits), gather(self.bits >> 1));
        let side = |at: u32, more: u32, most: f64| {
            let part = f64::from(at.wrapping_add(more)) / (1u64 << self.steps) as f64;
            -most + part * (most + most)
        };
        Area {
            south: side(latitude, 0, MAX_LATITUDE),
            north: side(latitude, 1, MAX_LATITUDE),
            west: side(longitude, 0, MAX_LONGITUDE),
            east: side(longitude, 1, MAX_LONGITUDE),
        }
    }

    /// Its neighbour, so many cells to the east and to the north (-1, 0, 1).
    fn moved(self, east: i8, north: i8) -> Cell {
        let unused = 64 - u32::from(self.steps) * 2;
        let (mut x, mut y) = (self.bits & ODD, self.bits & EVEN);
        let (xs, ys) = (ODD >> unused, EVEN >> unused);
        match east {
            1 => x = x.wrapping_add(ys + 1),
            -1 => x = (x | ys).wrapping_sub(ys + 1),
            _ => {}
        }
        match north {
            1 => y = y.wrapping_add(xs + 1),
            -1 => y = (y | xs).wrapping_sub(xs + 1),
            _ => {}
        }
        Cell { bits: x & xs | y & ys, ..self }
    }

    /// The scores of the positions in it: from the first to below the second.
    fn scores(self) -> (f64, f64) {
        let shift = 52 - self.steps * 2;
        ((self.bits << shift) as f64, ((self.bits + 1) << shift) as f64)
    }
}

impl Shape {
    /// The distance of a position from the middle, if it is within.
    pub fn distance(self, middle: Position, position: Position) -> Option<f64> {
        match self {
            Shape::Circle(radius) => {
                let distance = middle.distance(position);
                (distance <= radius).then_some(distance)
            }
            Shape::Box(width, height) => {
                let level = Position { longitude: middle.longitude, ..position };
                let is_within = latitude_distance(position.latitude, middle.latitude)
                    <= height / 2.0
                    && position.distance(level) <= width / 2.0;
                is_within.then(|| middle.distance(position))
            }
        }
    }

    fn bounds(self, middle: Position) -> Area {
        let (width, height) = match self {
            Shape::Circle(radius) => (radius, radius),
            Shape::Box(width, height) => (width / 2.0, height / 2.0),
        };
        let Position { longitude, latitude } = middle;
        let tall = degrees(height / EARTH);
        let wide = |latitude: f64| degrees(width / EARTH / radians(latitude).cos());
        let wide = if latitude < 0.0 { wide(latitude - tall) } else { wide(latitude + tall) };
        Area {
            west: longitude - wide,
            east: longitude + wide,
            south: latitude - tall,
            north: latitude + tall,
        }
    }

    /// Bits of each coordinate of cells that are as large as the shape.
    fn steps(self, latitude: f64) -> u8 {
        let mut radius = match self {
            Shape::Circle(radius) => radius,
            Shape::Box(width, height) => {
                ((width / 2.0) * (width / 2.0) + (height / 2.0) * (height / 2.0)).sqrt()
            }
        };
        if radius == 0.0 {
            return STEPS;
        }
        let mut steps = 1i32;
        while radius < MERCATOR {
            radius *= 2.0;
            steps += 1;
        }
        steps -= 2;
        if latitude.abs() > 66.0 {
            steps -= 1 + i32::from(latitude.abs() > 80.0);
        }
        steps.clamp(1, STEPS.into()) as u8
    }

    /// The ranges of scores in which positions around the middle are, from the first to below the
    /// second: at most nine, in Redis's order.
    pub fn ranges(self, middle: Position) -> Vec<(f64, f64)> {
        let bounds = self.bounds(middle);
        let mut steps = self.steps(middle.latitude);
        let mut cell = middle.cell(steps);
        let is_short = cell.moved(0, 1).area().north < bounds.north
            || cell.moved(0, -1).area().south > bounds.south
            || cell.moved(1, 0).area().east < bounds.east
            || cell.moved(-1, 0).area().west > bounds.west;
        if steps > 1 && is_short {
            steps -= 1;
            cell = middle.cell(steps);
        }
        let area = cell.area();
        let (mut ranges, mut last) = (Vec::with_capacity(9), None);
        for (nth, (east, north)) in NEIGHBOURS.into_iter().enumerate() {
            let is_useless = steps >= 2
                && ((north < 0 && area.south < bounds.south)
                    || (north > 0 && area.north > bounds.north)
                    || (east < 0 && area.west < bounds.west)
                    || (east > 0 && area.east > bounds.east));
            let neighbour = cell.moved(east, north);
            if is_useless || last == Some(neighbour) {
                continue;
            }
            ranges.push(neighbour.scores());
            // As in Redis, the cell in the middle does not count as a neighbour.
            last = (nth > 0).then_some(neighbour);
        }
        ranges
    }
}

/// The middle and its neighbours in the order in which Redis looks at them.
const NEIGHBOURS: [(i8, i8); 9] =
    [(0, 0), (0, 1), (0, -1), (1, 0), (-1, 0), (1, 1), (-1, 1), (1, -1), (-1, -1)];

#[cfg(test)]
mod tests;

//! The traces of `larder bench compare --plan hitratio`, number for number: the same generator,
//! seed and sizes.

/// Requests in a trace; the first quarter only warms up.
pub(crate) const REQUESTS: usize = 4_000_000;
pub(crate) const WARM: usize = REQUESTS / 4;
const KEYS: u32 = 1_000_000;
const SEED: u64 = 11;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Zipf,
    Scan,
    OneHit,
    Drift,
}

/// Name, kind, skew.
pub(crate) const TRACES: [(&str, Kind, f64); 6] = [
    ("zipf 0.7", Kind::Zipf, 0.7),
    ("zipf 0.9", Kind::Zipf, 0.9),
    ("zipf 1.0", Kind::Zipf, 1.0),
    ("scans mixed in", Kind::Scan, 0.9),
    ("many one-hit wonders", Kind::OneHit, 0.9),
    ("drifting popularity", Kind::Drift, 0.9),
];

/// splitmix64.
pub(crate) fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn unit(x: u64) -> f64 {
    (x >> 11) as f64 / 9_007_199_254_740_992.0
}

fn scrambled(x: u64) -> u64 {
    next(&mut x.wrapping_mul(0x2545_f491_4f6c_dd1d).wrapping_add(77))
}

/// Bytes of an object's value: lognormal, median 300, 16 to 4096.
pub(crate) fn size(id: u32) -> usize {
    let a = scrambled(u64::from(id));
    let b = scrambled(a ^ 0x5bd1_e995);
    let z = (-2.0 * (unit(a) + 1e-18).ln()).sqrt() * (std::f64::consts::TAU * unit(b)).cos();
    (300.0 * z.exp()).clamp(16.0, 4096.0) as usize
}

/// A key of 16 bytes.
pub(crate) fn key(id: u32) -> [u8; 16] {
    let mut key = *b"k000000000000000";
    let hex = b"0123456789abcdef";
    (0..8).for_each(|i| key[8 + i] = hex[(id >> (28 - 4 * i)) as usize & 15]);
    key
}

fn cdf(theta: f64) -> Vec<f64> {
    let mut total = 0.0;
    let mut cdf: Vec<f64> = (1..=KEYS)
        .map(|i| {
            total += f64::from(i).powf(-theta);
            total
        })
        .collect();
    cdf.iter_mut().for_each(|c| *c /= total);
    cdf
}

fn pick(cdf: &[f64], u: f64, shift: u32) -> u32 {
    let at = cdf.partition_point(|c| *c < u).min(cdf.len() - 1) as u64;
    ((at * 2_654_435_761 + 12_345 + u64::from(shift)) % u64::from(KEYS)) as u32
}

/// Object numbers in the order of requests.
pub(crate) fn trace(kind: Kind, theta: f64) -> Vec<u32> {
    let cdf = cdf(theta);
    let (mut state, mut fresh, mut shift, mut scan) = (SEED, KEYS, 0, 0);
    let mut new = || {
        fresh += 1;
        fresh - 1
    };
    (0..REQUESTS)
        .map(|i| {
            let u = unit(next(&mut state));
            match kind {
                Kind::Scan if i % 150_000 == 100_000 => {
                    scan = 49_999;
                    new()
                }
                Kind::Scan if scan > 0 => {
                    scan -= 1;
                    new()
                }
                Kind::OneHit if next(&mut state) & 1 == 1 => new(),
                Kind::Drift => {
                    shift += if i != 0 && i % 250_000 == 0 { KEYS / 16 + 1 } else { 0 };
                    pick(&cdf, u, shift)
                }
                _ => pick(&cdf, u, 0),
            }
        })
        .collect()
}

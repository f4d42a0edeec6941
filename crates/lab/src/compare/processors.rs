//! Assignment of processors to servers and generator.

use std::{fmt, fs};

use rustix::thread::sched_getaffinity;

/// Width of the kernel's processor set.
const MOST: usize = 1024;

/// One processor for servers, another for the generator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cpus {
    pub(crate) servers: usize,
    pub(crate) generator: usize,
    /// Both are hardware threads of one core and compete: the machine offers no others.
    siblings: bool,
}

impl Cpus {
    /// Two processors this process may use, of different cores if possible. `None`: there are not
    /// two.
    pub(crate) fn here() -> Option<Self> {
        let allowed = sched_getaffinity(None).ok()?;
        let allowed: Vec<usize> = (0..MOST).filter(|cpu| allowed.is_set(*cpu)).collect();
        Self::of(&allowed, core)
    }

    /// The first processor, and the first one of another core.
    fn of(allowed: &[usize], core: impl Fn(usize) -> Option<String>) -> Option<Self> {
        let (&servers, others) = allowed.split_first()?;
        let first = core(servers);
        // If the topology is unknown, any other processor is taken.
        let alone = others.iter().find(|other| first.is_none() || core(**other) != first);
        let generator = *alone.or(others.first())?;
        Some(Self { servers, generator, siblings: alone.is_none() })
    }
}

impl fmt::Display for Cpus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "servers on processor {}, generator on {}", self.servers, self.generator)?;
        if self.siblings { f.write_str(", two threads of one core") } else { Ok(()) }
    }
}

/// The core of a processor, named by its hardware threads, such as `0,4`. `None`: unknown.
fn core(cpu: usize) -> Option<String> {
    fs::read_to_string(format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"))
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With cores given as numbers.
    fn chosen(allowed: &[usize], core: impl Fn(usize) -> usize) -> Option<(usize, usize, bool)> {
        let named = |cpu| Some(core(cpu).to_string());
        Cpus::of(allowed, named).map(|cpus| (cpus.servers, cpus.generator, cpus.siblings))
    }

    #[test]
    fn processors_of_different_cores_are_preferred() {
        // Siblings are adjacent, or half the processors apart.
        assert_eq!(chosen(&[0, 1, 2, 3], |cpu| cpu / 2), Some((0, 2, false)));
        assert_eq!(chosen(&[0, 1, 2, 3], |cpu| cpu % 2), Some((0, 1, false)));
        // Only some processors are allowed.
        assert_eq!(chosen(&[1, 5, 6], |cpu| cpu % 4), Some((1, 6, false)));
    }

    #[test]
    fn siblings_are_better_than_one_and_are_told() {
        assert_eq!(chosen(&[2, 3], |cpu| cpu / 2), Some((2, 3, true)));
        let cpus = Cpus::of(&[2, 3], |_| Some("2-3".to_owned())).unwrap();
        assert_eq!(
            cpus.to_string(),
            "servers on processor 2, generator on 3, two threads of one core"
        );
        // An unknown topology is not reported as siblings.
        let unsaid = Cpus::of(&[0, 1], |_| None).unwrap();
        assert_eq!(unsaid, Cpus { servers: 0, generator: 1, siblings: false });
        assert_eq!((chosen(&[3], |_| 0), chosen(&[], |_| 0)), (None, None));
    }
}

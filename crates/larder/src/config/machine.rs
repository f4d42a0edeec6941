//! Memory of the machine, or of the control group that this process is in.

use std::path::Path;

use larder_server::settings::Settings;

use super::{
    bounded,
    problem::{Location, Problem, Report},
    reader::Values,
    value::show_size,
};

/// Largest of the system's files that are read, in bytes.
const FILE_BYTES: usize = 64 << 10;

/// Warns of a budget that the machine does not have: the system ends the process when it is used.
pub(super) fn doubt(root: &Values, settings: &Settings, report: &mut Report) {
    let read = |path: &str| {
        let (bytes, _) = bounded::read(Path::new(path), FILE_BYTES).ok()?;
        String::from_utf8(bytes).ok()
    };
    let Some((limit, of)) = limit(read).filter(|(limit, _)| settings.memory > *limit) else {
        return;
    };
    let message =
        format!("{} is more than the {} of {of}", show_size(settings.memory), show_size(limit));
    let location = match root.is_set("memory") {
        true => root.location("memory"),
        false => Location::Whole,
    };
    let fix = "leave room for connections and for other programs: half of it, for example";
    report.warn(Problem::new(location, format!("`memory` of {message}")).fix(fix));
}

/// The least of the limits in bytes, and its owner. `read`: the text of a file of the system.
fn limit(read: impl Fn(&str) -> Option<String>) -> Option<(u64, &'static str)> {
    let whole = read("/proc/meminfo").and_then(|text| {
        let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
        let kibibytes: u64 = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
        Some((kibibytes << 10, "this machine"))
    });
    let groups = read("/proc/self/cgroup").unwrap_or_default();
    let of_group = groups.lines().filter_map(|line| {
        let (kind, path) = line.split_once(':')?.1.split_once(':')?;
        let (directory, file) = match kind {
            "" => ("/sys/fs/cgroup", "memory.max"),
            "memory" => ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
            _ => return None,
        };
        // Each group is bounded by those above it.
        let above = Path::new(path).ancestors().filter_map(|path| {
            let file =
                format!("{directory}{}/{file}", path.display().to_string().trim_end_matches('/'));
            read(&file)?.trim().parse().ok()
        });
        Some((above.min()?, "this process's control group"))
    });
    whole.into_iter().chain(of_group).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_limit_counts() {
        let meminfo = "MemTotal:        8000 kB\nMemFree:         100 kB\n";
        let with = |files: &[(&str, &str)]| {
            limit(|path| {
                let all = [("/proc/meminfo", meminfo)];
                let file = all.iter().chain(files).find(|(name, _)| *name == path);
                file.map(|(_, text)| (*text).to_owned())
            })
        };
        let machine = Some((8000 << 10, "this machine"));
        assert_eq!(with(&[]), machine);
        let group = ("/proc/self/cgroup", "1:cpu:/x\n0::/a/b\n");
        let unlimited = ("/sys/fs/cgroup/a/b/memory.max", "max\n");
        assert_eq!(with(&[group, unlimited]), machine);
        let parent = ("/sys/fs/cgroup/a/memory.max", "1048576\n");
        assert_eq!(
            with(&[group, unlimited, parent]),
            Some((1 << 20, "this process's control group"))
        );
        let old = ("/proc/self/cgroup", "4:memory:/\n");
        let limited = ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "4096\n");
        assert_eq!(with(&[old, limited]), Some((4096, "this process's control group")));
        let none = ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
        assert_eq!(with(&[old, none]), machine);
    }
}

//! Description of the machine: enough to judge figures by, without naming it.

use std::{fs, thread};

use rustix::system::uname;

use super::show;

/// Processor, cores, kernel and Larder's version, for the head of a report.
pub fn machine() -> Vec<(String, String)> {
    let cores =
        thread::available_parallelism().map_or("unknown".to_owned(), |cores| cores.to_string());
    [
        ("processor", processor()),
        ("cores", cores),
        ("memory", memory().map_or("unknown".to_owned(), |bytes| show::bytes(bytes as f64))),
        ("kernel", kernel()),
        ("architecture", uname().machine().to_string_lossy().into_owned()),
        ("larder", env!("CARGO_PKG_VERSION").to_owned()),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value))
    .collect()
}

/// The processor model as named by the kernel. (ARM kernels give implementer and part numbers
/// instead.)
fn model(cpuinfo: &str) -> String {
    let field = |wanted: &str| {
        let line = |line: &&str| line.split(':').next().is_some_and(|name| name.trim() == wanted);
        let value = cpuinfo.lines().find(line)?.split_once(':')?.1.trim();
        (!value.is_empty()).then(|| value.to_owned())
    };
    let part =
        || Some(format!("implementer {}, part {}", field("CPU implementer")?, field("CPU part")?));
    field("model name").or_else(part).unwrap_or_else(|| "unknown".to_owned())
}

/// The processor model of this machine.
pub(crate) fn processor() -> String {
    model(&fs::read_to_string("/proc/cpuinfo").unwrap_or_default())
}

/// Memory of this machine in bytes.
pub(crate) fn memory() -> Option<u64> {
    total(&fs::read_to_string("/proc/meminfo").ok()?)
}

fn total(meminfo: &str) -> Option<u64> {
    let total = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    Some(total.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? << 10)
}

/// Name and release of the kernel.
pub(crate) fn kernel() -> String {
    let system = uname();
    format!("{} {}", system.sysname().to_string_lossy(), system.release().to_string_lossy())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_processor_is_found_in_either_kind_of_cpuinfo() {
        let intel =
            "processor\t: 0\nmodel\t\t: 85\nmodel name\t: Intel(R) Xeon(R)\nmodel name\t: other\n";
        assert_eq!(model(intel), "Intel(R) Xeon(R)");
        assert_eq!(
            model("CPU implementer\t: 0x41\nCPU part\t: 0xd0c\n"),
            "implementer 0x41, part 0xd0c"
        );
        assert_eq!(model(""), "unknown");
        assert_eq!(total("MemTotal:        4194304 kB\nMemFree: 1 kB\n"), Some(4 << 30));
    }
}

//! What kind of machine it was: enough to judge figures by, and nothing that names it.

use std::{fs, thread};

/// Processor, cores and kernel, and which Larder asked; for the head of a report.
pub fn machine() -> Vec<(String, String)> {
    let cores = thread::available_parallelism().map_or("unknown".to_owned(), |cores| cores.to_string());
    let name = rustix::system::uname();
    let kernel = format!("{} {}", name.sysname().to_string_lossy(), name.release().to_string_lossy());
    [
        ("processor", processor(&fs::read_to_string("/proc/cpuinfo").unwrap_or_default())),
        ("cores", cores),
        ("memory", memory(&fs::read_to_string("/proc/meminfo").unwrap_or_default())),
        ("kernel", kernel),
        ("architecture", name.machine().to_string_lossy().into_owned()),
        ("larder", env!("CARGO_PKG_VERSION").to_owned()),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value))
    .collect()
}

/// The model, as the kernel names it. (ARM's kernels give numbers of implementer and part instead.)
fn processor(cpuinfo: &str) -> String {
    let field = |wanted: &str| {
        let line = |line: &&str| line.split(':').next().is_some_and(|name| name.trim() == wanted);
        let value = cpuinfo.lines().find(line)?.split_once(':')?.1.trim();
        (!value.is_empty()).then(|| value.to_owned())
    };
    let part = || Some(format!("implementer {}, part {}", field("CPU implementer")?, field("CPU part")?));
    field("model name").or_else(part).unwrap_or_else(|| "unknown".to_owned())
}

fn memory(meminfo: &str) -> String {
    let total = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:")?.trim().strip_suffix("kB"));
    let kib = total.and_then(|kib| kib.trim().parse::<f64>().ok());
    kib.map_or("unknown".to_owned(), |kib| super::show::bytes(kib * 1024.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_processor_is_found_in_either_kind_of_cpuinfo() {
        let intel = "processor\t: 0\nmodel\t\t: 85\nmodel name\t: Intel(R) Xeon(R)\nmodel name\t: other\n";
        assert_eq!(processor(intel), "Intel(R) Xeon(R)");
        assert_eq!(processor("CPU implementer\t: 0x41\nCPU part\t: 0xd0c\n"), "implementer 0x41, part 0xd0c");
        assert_eq!(processor(""), "unknown");
        assert_eq!(memory("MemTotal:        4194304 kB\nMemFree: 1 kB\n"), "4.00 GiB");
    }
}

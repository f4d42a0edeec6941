//! Description of the machine: enough to judge figures by, without naming it.

use std::thread;

use procfs::{CpuInfo, Current, Meminfo};
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
fn model(cpuinfo: &CpuInfo) -> String {
    let field = |wanted: &str| {
        let value = cpuinfo.get_field(0, wanted)?;
        (!value.is_empty()).then(|| value.to_owned())
    };
    let part =
        || Some(format!("implementer {}, part {}", field("CPU implementer")?, field("CPU part")?));
    field("model name").or_else(part).unwrap_or_else(|| "unknown".to_owned())
}

/// The processor model of this machine.
pub(crate) fn processor() -> String {
    CpuInfo::current().map_or_else(|_| "unknown".to_owned(), |cpuinfo| model(&cpuinfo))
}

/// Memory of this machine in bytes.
pub(crate) fn memory() -> Option<u64> {
    Some(Meminfo::current().ok()?.mem_total)
}

/// Name and release of the kernel.
pub(crate) fn kernel() -> String {
    let system = uname();
    format!("{} {}", system.sysname().to_string_lossy(), system.release().to_string_lossy())
}

#[cfg(test)]
mod tests {
    use procfs::FromBufRead;

    use super::*;

    #[test]
    fn the_processor_is_found_in_either_kind_of_cpuinfo() {
        let model = |text: &str| model(&CpuInfo::from_buf_read(text.as_bytes()).unwrap());
        let intel = "processor\t: 0\nmodel\t\t: 85\nmodel name\t: Intel(R) Xeon(R)\n\n\
                     processor\t: 1\nmodel\t\t: 85\nmodel name\t: other\n\n";
        assert_eq!(model(intel), "Intel(R) Xeon(R)");
        assert_eq!(
            model("processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\n\n"),
            "implementer 0x41, part 0xd0c"
        );
        assert_eq!(model(""), "unknown");
        assert!(memory().is_some_and(|bytes| bytes > 1 << 20));
    }
}

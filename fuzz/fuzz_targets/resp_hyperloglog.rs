//! HyperLogLogs: any bytes are read, raised and counted, and both forms tell the same.
#![no_main]

use larder_proto::resp::hyperloglog::{HyperLogLog, REGISTERS};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let mut whole = b"HYLL\x01".to_vec();
    whole.resize(16, 0);
    whole.extend_from_slice(input);
    for bytes in [input, &whole] {
        let Some(mut own) = HyperLogLog::read(bytes) else { continue };
        let mut dense = own.clone();
        let is_sound = dense.to_dense().is_ok();
        for element in input.chunks(5) {
            let changed = own.add(element);
            if is_sound {
                assert_eq!(changed, dense.add(element));
            }
        }
        if is_sound {
            assert_eq!(own.count(), dense.count());
        }
        let mut registers = [0; REGISTERS];
        let _ = own.merge_into(&mut registers);
    }
});

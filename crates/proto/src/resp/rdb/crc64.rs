//! CRC-64 of Jones, reflected (Redis: `crc64.c`).

const POLYNOMIAL: u64 = 0x95ac_9329_ac4b_c9b5;

static TABLES: [[u64; 256]; 8] = tables();

const fn tables() -> [[u64; 256]; 8] {
    let mut tables = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let (mut crc, mut bit) = (byte as u64, 0);
        while bit < 8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ POLYNOMIAL } else { crc >> 1 };
            bit += 1;
        }
        tables[0][byte] = crc;
        byte += 1;
    }
    let mut table = 1;
    while table < 8 {
        let mut byte = 0;
        while byte < 256 {
            let crc = tables[table - 1][byte];
            tables[table][byte] = tables[0][(crc & 0xff) as usize] ^ crc >> 8;
            byte += 1;
        }
        table += 1;
    }
    tables
}

/// The checksum of bytes behind others, whose checksum is `crc` (0: of none).
pub fn crc64(crc: u64, bytes: &[u8]) -> u64 {
    let mut crc = crc;
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        let bytes = (crc ^ u64::from_le_bytes(*word)).to_le_bytes();
        crc = 0;
        for (nth, byte) in bytes.into_iter().enumerate() {
            crc ^= TABLES[7 - nth][usize::from(byte)];
        }
    }
    for byte in rest {
        crc = TABLES[0][usize::from(crc as u8 ^ byte)] ^ crc >> 8;
    }
    crc
}

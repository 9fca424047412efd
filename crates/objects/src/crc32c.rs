//! CRC-32C (Castagnoli), which Google Cloud Storage and S3 SDKs send: table-driven, eight bytes at a time.

/// The polynomial, reflected (RFC 3720, section 12.1).
const POLYNOMIAL: u32 = 0x82f6_3b78;

static TABLES: [[u32; 256]; 8] = tables();

const fn tables() -> [[u32; 256]; 8] {
    let mut tables = [[0; 256]; 8];
    let mut byte: u32 = 0;
    while byte < 256 {
        let (mut value, mut bit) = (byte, 0);
        while bit < 8 {
            value = if value & 1 == 1 { value >> 1 ^ POLYNOMIAL } else { value >> 1 };
            bit += 1;
        }
        tables[0][byte as usize] = value;
        byte += 1;
    }
    let mut table = 1;
    while table < 8 {
        let mut at = 0;
        while at < 256 {
            let before = tables[table - 1][at];
            tables[table][at] = before >> 8 ^ tables[0][(before & 0xff) as usize];
            at += 1;
        }
        table += 1;
    }
    tables
}

/// A checksum that is computed incrementally.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Crc32c(u32);

impl Crc32c {
    pub(crate) fn new() -> Self {
        Self(!0)
    }

    pub(crate) fn update(&mut self, bytes: &[u8]) {
        let (eights, rest) = bytes.as_chunks::<8>();
        for eight in eights {
            let low = u32::from_le_bytes([eight[0], eight[1], eight[2], eight[3]]) ^ self.0;
            let [a, b, c, d] = low.to_le_bytes();
            let index = |table: usize, byte: u8| TABLES[table][usize::from(byte)];
            self.0 = index(7, a)
                ^ index(6, b)
                ^ index(5, c)
                ^ index(4, d)
                ^ index(3, eight[4])
                ^ index(2, eight[5])
                ^ index(1, eight[6])
                ^ index(0, eight[7]);
        }
        for byte in rest {
            let [low, ..] = self.0.to_le_bytes();
            self.0 = self.0 >> 8 ^ TABLES[0][usize::from(low ^ byte)];
        }
    }

    pub(crate) fn finish(self) -> [u8; 4] {
        (!self.0).to_be_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_what_the_standard_says() {
        let of = |bytes: &[u8]| {
            let mut crc = Crc32c::new();
            crc.update(bytes);
            u32::from_be_bytes(crc.finish())
        };
        // RFC 3720, B.4, and the usual check value.
        assert_eq!(of(b"123456789"), 0xe306_9283);
        assert_eq!(of(&[0; 32]), 0x8a91_36aa);
        assert_eq!(of(&[0xff; 32]), 0x62a8_ab43);
        assert_eq!(of(b""), 0);
        let mut parts = Crc32c::new();
        for part in [&b"1"[..], b"2345", b"", b"6789"] {
            parts.update(part);
        }
        assert_eq!(u32::from_be_bytes(parts.finish()), 0xe306_9283);
    }
}

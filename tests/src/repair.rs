//! Changes of stored bytes with repaired checksums, so that hostile bytes reach every decoder.
//!
//! Everything here is written from `docs/formats` and shares no code with the decoders under test. An input is a list of
//! changes: each names its target (a slot of the control file, a header or a record of the log, a page, the double-write
//! area, the file of written pages, a heap's root, chunk or words), place, and kind.

use cedrat_media::{Durability, Image, Media, OpenMode, SECTOR_LEN, SimDisk, read_exact_at, write_all_at};

const BLOCK_LEN: usize = 4096;
const SLOT_LEN: usize = 64 * 1024;

/// Target of one change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// The control file.
    Control,
    /// Headers of segments and blocks.
    LogHeaders,
    /// Records, their heads and bodies.
    Records,
    /// Pages, with the content of structures, objects and graphs.
    Pages,
    /// The root of all heaps.
    HeapRoot,
    /// Chunks of heaps' checkpoints, their headers and words.
    HeapChunks,
    /// Words of a heap that are in use: the account of blocks, roots, and the links of structures. One gets the value of
    /// another, or the offset of another, so that chains lead back to themselves.
    HeapWords,
    /// The header of the double-write area, or one of its images, whose home is then torn.
    DoubleWrite,
    /// The file of written pages.
    Written,
}

impl Target {
    /// All of them.
    pub const ALL: [Target; 9] = [
        Target::Control,
        Target::LogHeaders,
        Target::Records,
        Target::Pages,
        Target::HeapRoot,
        Target::HeapChunks,
        Target::HeapWords,
        Target::DoubleWrite,
        Target::Written,
    ];
}

/// Returns a disk with `image`, changed by `input` at `target`, or at any target for `None`.
pub fn changed(image: &Image, target: Option<Target>, input: &[u8]) -> SimDisk {
    let disk = SimDisk::from_image(image.clone());
    let mut input = Input(input);
    while let Some(change) = Change::of(&mut input) {
        let target = target.unwrap_or(Target::ALL[change.place % Target::ALL.len()]);
        // A change without a target of its kind has no effect.
        let _ = change.make(&disk, target);
    }
    disk
}

/// Returns a disk with `image`, in which the byte at `at` of a record is `byte`: of its LSN, kind, transaction, distance or
/// body. `older` counts back from the newest record. `None` if there is no such byte, or it has this value already.
pub fn changed_record(image: &Image, older: usize, at: usize, byte: u8) -> Option<SimDisk> {
    let disk = SimDisk::from_image(image.clone());
    let names: Vec<String> = disk.list("log").ok()?.into_iter().map(|name| format!("log/{name}")).collect();
    let mut files: Vec<File<'_>> = names.iter().filter_map(|name| File::open(&disk, name)).collect();
    let mut records = Vec::new();
    for (number, file) in files.iter().enumerate() {
        for block in Block::all(&file.bytes) {
            for (begin, len) in block.records(&file.bytes) {
                let (_, crc_at) = varint(&file.bytes[begin..begin + len])?;
                let (lsn, _) = varint(&file.bytes[begin + crc_at + 4..begin + len])?;
                records.push((lsn, number, block, begin, len));
            }
        }
    }
    records.sort_unstable_by_key(|record| std::cmp::Reverse(record.0));
    let &(_, number, block, begin, len) = records.get(older)?;
    let file = &mut files[number];
    let (_, crc_at) = varint(&file.bytes[begin..begin + len])?;
    let there = file.bytes[begin..begin + len].get_mut(crc_at + 4 + at)?;
    if std::mem::replace(there, byte) == byte {
        return None;
    }
    block.seal_record(&mut file.bytes, begin, len)?;
    file.write()?;
    drop(files);
    Some(disk)
}

/// Rest of an input.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn number(&mut self, bytes: usize) -> Option<u64> {
        let (number, rest) = self.0.split_at_checked(bytes)?;
        self.0 = rest;
        Some(number.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }
}

/// A change of the `place`-th target of its kind, at byte `at`.
struct Change {
    place: usize,
    at: usize,
    how: u8,
    value: u64,
}

/// Numbers at which arithmetic fails.
const INTERESTING: [u64; 16] = [
    0,
    1,
    2,
    63,
    64,
    4095,
    4096,
    0x7fff,
    0xffff,
    0x7fff_ffff,
    0xffff_ffff,
    1 << 48,
    (1 << 62) - 1,
    i64::MAX as u64,
    u64::MAX - 4095,
    u64::MAX,
];

impl Change {
    fn of(input: &mut Input<'_>) -> Option<Change> {
        let (place, at) = (input.number(2)? as usize, input.number(2)? as usize);
        Some(Change { place, at, how: input.number(1)? as u8, value: input.number(1)? })
    }

    /// Changes some of `bytes`.
    fn apply(&self, bytes: &mut [u8]) {
        if bytes.is_empty() {
            return;
        }
        // Most important bytes lie at the beginning.
        let span = if self.how & 0x80 == 0 { bytes.len().min(96) } else { bytes.len() };
        let at = self.at % span;
        let number = INTERESTING[self.value as usize % INTERESTING.len()].to_le_bytes();
        let all = bytes.len();
        let end = |len: usize| (at + len).min(all);
        match self.how & 7 {
            0 => bytes[at] ^= 1 << (self.value & 7),
            1 => bytes[at] = self.value as u8,
            2 => bytes[at] = bytes[at].wrapping_add(1),
            3 => bytes[at] = bytes[at].wrapping_sub(1),
            4 => bytes[at..end(2)].copy_from_slice(&number[..end(2) - at]),
            5 => bytes[at..end(4)].copy_from_slice(&number[..end(4) - at]),
            6 => {
                let at = at / 8 * 8;
                let end = (at + 8).min(bytes.len());
                bytes[at..end].copy_from_slice(&number[..end - at]);
            }
            _ => {
                let from = self.value as usize * 8 % bytes.len();
                let len = 8.min(bytes.len() - from.max(at));
                bytes.copy_within(from..from + len, at);
            }
        }
    }

    fn make(&self, disk: &SimDisk, target: Target) -> Option<()> {
        match target {
            Target::Control => self.slots(disk, "control", 20),
            Target::HeapRoot => self.slots(disk, "heaps.root", 20),
            Target::LogHeaders => self.log(disk, true),
            Target::Records => self.log(disk, false),
            Target::Pages => self.page(disk),
            Target::HeapChunks => self.chunk(disk, |header, words| match self.value {
                0 => self.apply(&mut header[12..72]),
                _ => self.apply(words),
            }),
            Target::HeapWords => self.chunk(disk, |_, words| self.word(words)),
            Target::DoubleWrite => self.area(disk),
            Target::Written => self.written(disk),
        }
    }

    /// Makes the same change in both slots of a file whose slots have their checksum at 8, in the bytes from 12 up to the
    /// length at 16.
    fn slots(&self, disk: &SimDisk, name: &str, from: usize) -> Option<()> {
        let mut file = File::open(disk, name)?;
        for slot in file.bytes.chunks_mut(SLOT_LEN) {
            let used = u32_at(slot, 16)? as usize;
            if used > from && used <= slot.len() {
                self.apply(&mut slot[from..used]);
                seal_slot(slot);
            }
        }
        file.write()
    }

    /// Changes a page, but not its number, and returns its checksum.
    fn change_page(&self, page: &mut [u8]) -> [u8; 4] {
        let number = page[16..24].to_vec();
        self.apply(&mut page[6..]);
        page[16..24].copy_from_slice(&number);
        let crc = crc32c::crc32c(&page[4..]).to_le_bytes();
        page[..4].copy_from_slice(&crc);
        crc
    }

    fn page(&self, disk: &SimDisk) -> Option<()> {
        let mut file = File::open(disk, "pages")?;
        let mut written: Vec<&mut [u8]> =
            file.bytes.chunks_exact_mut(BLOCK_LEN).filter(|page| page.iter().any(|&byte| byte != 0)).collect();
        let place = self.place % written.len().max(1);
        let page = written.get_mut(place)?;
        self.change_page(page);
        file.write()
    }

    /// Changes a header, or a record.
    fn log(&self, disk: &SimDisk, header: bool) -> Option<()> {
        let names: Vec<String> = disk.list("log").ok()?.into_iter().map(|name| format!("log/{name}")).collect();
        let mut files: Vec<File<'_>> = names.iter().filter_map(|name| File::open(disk, name)).collect();
        let blocks: Vec<(usize, Block)> = files
            .iter()
            .enumerate()
            .flat_map(|(number, file)| Block::all(&file.bytes).into_iter().map(move |block| (number, block)))
            .collect();
        let &(number, block) = blocks.get(self.place % blocks.len().max(1))?;
        let file = &mut files[number];
        if header {
            let begin = if self.value & 0x40 == 0 { block.begin } else { 0 };
            self.apply(&mut file.bytes[begin + 8..begin + 64]);
            let seed = if begin == 0 { 0 } else { block.seed };
            let crc = crc32c::crc32c_append(seed, &file.bytes[begin + 8..begin + 64]);
            file.bytes[begin + 4..begin + 8].copy_from_slice(&crc.to_le_bytes());
            return file.write();
        }
        let records = block.records(&file.bytes);
        let &(begin, len) = records.get(self.value as usize % records.len().max(1))?;
        let frame = &mut file.bytes[begin..begin + len];
        let (_, crc_at) = varint(frame)?;
        self.apply(&mut frame[crc_at + 4..]);
        block.seal_record(&mut file.bytes, begin, len)?;
        file.write()
    }

    /// Changes a word that is not zero.
    fn word(&self, words: &mut [u8]) {
        let used: Vec<usize> = (0..words.len()).step_by(8).filter(|&at| words[at..at + 8] != [0; 8]).collect();
        let Some(&at) = used.get(self.at % used.len().max(1)) else { return };
        let other = used[(self.value as usize * 64 + usize::from(self.how >> 2)) % used.len()];
        match self.how & 3 {
            0 => words.copy_within(other..other + 8, at),
            1 => words[at..at + 8].copy_from_slice(&(other as u64 / 8).to_le_bytes()),
            2 => words[at..at + 8].copy_from_slice(&(other as u64).to_le_bytes()),
            _ => self.apply(&mut words[at..at + 8]),
        }
    }

    /// Changes the header of the double-write area, or an image and the header's checksum of it. The home of the image is torn,
    /// so that the image replaces it.
    fn area(&self, disk: &SimDisk) -> Option<()> {
        const CRC_AT: usize = 24;
        const ENTRIES_AT: usize = 40;
        let mut file = File::open(disk, "double-write")?;
        // An earlier change may have made it any number.
        let count = (u32_at(&file.bytes, 12)? as usize).min(253);
        if self.value & 0x40 == 0 {
            self.apply(&mut file.bytes[8..ENTRIES_AT + 16 * count]);
        } else {
            let image = self.place % count.max(1);
            let entry = ENTRIES_AT + 16 * image;
            let page = file.bytes.get_mut(BLOCK_LEN * (1 + image)..BLOCK_LEN * (2 + image))?;
            let crc = self.change_page(page);
            file.bytes[entry + 8..entry + 12].copy_from_slice(&crc);
            let number = u64::from_le_bytes(file.bytes[entry..entry + 8].try_into().ok()?);
            let mut pages = File::open(disk, "pages")?;
            if let Some(home) = pages.bytes.chunks_mut(BLOCK_LEN).nth(number as usize) {
                home[0] ^= 1;
            }
            pages.write()?;
        }
        file.bytes[CRC_AT..CRC_AT + 4].fill(0);
        let crc = crc32c::crc32c(&file.bytes[..BLOCK_LEN]).to_le_bytes();
        file.bytes[CRC_AT..CRC_AT + 4].copy_from_slice(&crc);
        file.write()
    }

    /// Changes a sector of the file of written pages, or bits of the first one.
    fn written(&self, disk: &SimDisk) -> Option<()> {
        let mut file = File::open(disk, "written")?;
        let sectors = file.bytes.chunks_exact_mut(SECTOR_LEN).filter(|sector| sector.iter().any(|&byte| byte != 0));
        let mut sectors: Vec<&mut [u8]> = sectors.collect();
        let place = self.place % sectors.len().max(1);
        let sector = sectors.get_mut(place)?;
        self.apply(&mut sector[4..]);
        let crc = crc32c::crc32c(&sector[4..]).to_le_bytes();
        sector[..4].copy_from_slice(&crc);
        file.write()
    }

    /// Changes the header or the words of a chunk by `change`, and repairs the header's checksum of the words and the root's
    /// digest.
    fn chunk(&self, disk: &SimDisk, change: impl Fn(&mut [u8], &mut [u8])) -> Option<()> {
        let mut root = File::open(disk, "heaps.root")?;
        let heap = HeapRoot::of(&root.bytes)?;
        let mut file = File::open(disk, &format!("heaps/{}.{}", heap.file, heap.checkpoint & 1))?;
        let place_len = heap.chunk_len as usize + BLOCK_LEN;
        let mut crcs = Vec::new();
        for (number, place) in file.bytes.chunks_exact_mut(place_len).take(heap.chunks as usize).enumerate() {
            let (header, words) = place.split_at_mut(BLOCK_LEN);
            if header.iter().all(|&byte| byte == 0) {
                crcs.push(None);
                continue;
            }
            if number == self.place % heap.chunks.max(1) as usize {
                change(header, words);
                header[64..68].copy_from_slice(&crc32c::crc32c(words).to_le_bytes());
                let crc = crc32c::crc32c(&header[12..72]);
                header[8..12].copy_from_slice(&crc.to_le_bytes());
            }
            crcs.push(u32_at(header, 64));
        }
        file.write()?;
        let digest = crcs.iter().fold(0, |digest, crc| {
            let digest = crc32c::crc32c_append(digest, &[u8::from(crc.is_some())]);
            crc32c::crc32c_append(digest, &crc.unwrap_or(0).to_le_bytes())
        });
        for slot in root.bytes.chunks_mut(SLOT_LEN) {
            heap.put_digest(slot, digest);
            seal_slot(slot);
        }
        root.write()
    }
}

fn seal_slot(slot: &mut [u8]) {
    if let Some(used) = u32_at(slot, 16).map(|used| used as usize).filter(|used| (20..=slot.len()).contains(used)) {
        let crc = crc32c::crc32c(&slot[12..used]);
        slot[8..12].copy_from_slice(&crc.to_le_bytes());
    }
}

/// A whole file in memory.
struct File<'a> {
    disk: &'a SimDisk,
    name: String,
    bytes: Vec<u8>,
}

impl<'a> File<'a> {
    fn open(disk: &'a SimDisk, name: &str) -> Option<File<'a>> {
        let file = disk.open(name, OpenMode::Read).ok()?;
        let mut bytes = vec![0; disk.len(file).ok()? as usize];
        read_exact_at(disk, file, 0, &mut bytes).ok()?;
        Some(File { disk, name: name.to_owned(), bytes })
    }

    fn write(&self) -> Option<()> {
        let file = self.disk.open(&self.name, OpenMode::ReadWrite).ok()?;
        write_all_at(self.disk, file, 0, &self.bytes, Durability::Durable).ok()
    }
}

/// A block of the log.
#[derive(Clone, Copy)]
struct Block {
    /// Its position in its file.
    begin: usize,
    used: usize,
    /// Its place in its partition.
    offset: u64,
    seed: u32,
    record_seed: u32,
}

impl Block {
    /// The blocks of a segment file whose headers verify.
    fn all(file: &[u8]) -> Vec<Block> {
        let mut blocks = Vec::new();
        if file.len() < BLOCK_LEN || file[..4] != *b"CSEG" {
            return blocks;
        }
        let seed = crc32c::crc32c_append(crc32c::crc32c(&file[16..32]), &file[10..12]);
        let mut begin = BLOCK_LEN;
        while let Some(header) = file.get(begin..begin + 64).filter(|header| header[..4] == *b"CBLK") {
            let (used, len) = (u32_at(header, 8).unwrap_or(0) as usize, u32_at(header, 12).unwrap_or(0) as usize);
            if Some(crc32c::crc32c_append(seed, &header[8..])) != u32_at(header, 4) || begin + used > file.len() {
                break;
            }
            let offset = u64::from_le_bytes(header[24..32].try_into().expect("eight bytes"));
            blocks.push(Block { begin, used, offset, seed, record_seed: crc32c::crc32c_append(seed, &header[16..24]) });
            begin += len.max(BLOCK_LEN);
        }
        blocks
    }

    /// Repairs a record's checksum.
    fn seal_record(&self, file: &mut [u8], begin: usize, len: usize) -> Option<()> {
        let place = self.offset + (begin - self.begin) as u64;
        let frame = &mut file[begin..begin + len];
        let (_, crc_at) = varint(frame)?;
        let head_len = head_len(&frame[crc_at + 4..])?;
        let (head, body) = frame[crc_at + 4..].split_at_checked(head_len)?;
        let mixed = self.record_seed ^ place as u32 ^ ((place >> 32) as u32).rotate_left(16);
        let crc = crc32c::crc32c_append(crc32c::crc32c(body), &mixed.to_le_bytes());
        let crc = crc32c::crc32c_append(crc, head);
        frame[crc_at..crc_at + 4].copy_from_slice(&crc.to_le_bytes());
        Some(())
    }

    /// Returns the positions of its records in the file, and their lengths.
    fn records(&self, file: &[u8]) -> Vec<(usize, usize)> {
        let mut records = Vec::new();
        let mut at = self.begin + 64;
        while let Some((covered, crc_at)) = file.get(at..self.begin + self.used).and_then(varint) {
            let len = crc_at + 4 + covered as usize;
            if covered < 4 || at + len > self.begin + self.used {
                break;
            }
            records.push((at, len));
            at += len;
        }
        records
    }
}

/// Returns the length of LSN, kind, transaction and distance.
fn head_len(covered: &[u8]) -> Option<usize> {
    let (_, lsn) = varint(covered)?;
    let (_, txn) = varint(covered.get(lsn + 1..)?)?;
    let (_, distance) = varint(covered.get(lsn + 1 + txn..)?)?;
    Some(lsn + 1 + txn + distance)
}

/// Data of the first heap in the root.
struct HeapRoot {
    file: String,
    chunk_len: u64,
    checkpoint: u64,
    chunks: u64,
    digest_at: usize,
}

impl HeapRoot {
    fn of(slot: &[u8]) -> Option<HeapRoot> {
        let mut at = 48;
        let mut number = || {
            let (number, len) = varint(slot.get(at..)?)?;
            at += len;
            Some((number, at))
        };
        let (_next, _heaps, _number) = (number()?, number()?, number()?);
        let (name_len, name_at) = number()?;
        at = name_at + name_len as usize;
        let (file_len, len) = varint(slot.get(at..)?)?;
        at += len;
        let file = String::from_utf8(slot.get(at..at + file_len as usize)?.to_vec()).ok()?;
        at += file_len as usize;
        let mut number = || {
            let (number, len) = varint(slot.get(at..)?)?;
            at += len;
            Some(number)
        };
        let (_words, _reserved, chunk_len, _blocks, _address) = (number()?, number()?, number()?, number()?, number()?);
        let (checkpoint, chunks, _redo_from, _reflects) = (number()?, number()?, number()?, number()?);
        Some(HeapRoot { file, chunk_len, checkpoint, chunks, digest_at: at })
    }

    /// Replaces the digest, which ends the list of one heap.
    fn put_digest(&self, slot: &mut [u8], digest: u32) {
        let (mut rest, mut at) = (u64::from(digest), self.digest_at);
        loop {
            slot[at] = (rest & 0x7f) as u8 | if rest > 0x7f { 0x80 } else { 0 };
            at += 1;
            rest >>= 7;
            if rest == 0 {
                break;
            }
        }
        slot[16..20].copy_from_slice(&(at as u32).to_le_bytes());
    }
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// Decodes a variable-length number, and returns its length too.
fn varint(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut number = 0;
    for (at, &byte) in bytes.iter().enumerate().take(10) {
        number |= u64::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            return Some((number, at + 1));
        }
    }
    None
}

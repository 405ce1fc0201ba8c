//! A comparison with a simple model: a simulated disk without faults is a vector of bytes, and its crashes keep all
//! synced bytes.

#![cfg(not(cedrat_shuttle))]

use cedrat_media::{
    Durability, Encryption, FileId, Image, Key, Loss, Media, OpenMode, RealDisk, SECTOR_LEN, SimDisk, read_exact_at,
};
use cedrat_sync::Arc;
use proptest::collection::vec;
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Step {
    Write { offset: usize, len: usize, byte: u8, durable: bool },
    Read { offset: usize, len: usize },
    Sync,
    Allocate { offset: usize, len: usize },
    Punch { offset: usize, len: usize },
    WriteZeros { offset: usize, len: usize },
    SetLen { len: usize },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    // Blocks, sectors and odd numbers, so that every border is met and crossed.
    let offset = || {
        prop_oneof![
            0..30_000usize,
            (0..8usize).prop_map(|block| block * 4096),
            (0..60usize).prop_map(|sector| sector * 512)
        ]
    };
    let len = || prop_oneof![0..10_000usize, Just(512), Just(4096), Just(8192)];
    let step = prop_oneof![
        5 => (offset(), len(), any::<u8>(), any::<bool>())
            .prop_map(|(offset, len, byte, durable)| Step::Write { offset, len, byte, durable }),
        2 => (offset(), len()).prop_map(|(offset, len)| Step::Read { offset, len }),
        2 => Just(Step::Sync),
        1 => (offset(), len()).prop_map(|(offset, len)| Step::Allocate { offset, len }),
        1 => (offset(), len()).prop_map(|(offset, len)| Step::Punch { offset, len }),
        1 => (offset(), len()).prop_map(|(offset, len)| Step::WriteZeros { offset, len }),
        1 => offset().prop_map(|len| Step::SetLen { len }),
    ];
    vec(step, 1..40)
}

/// Returns the bytes of a write: they depend on the offset, so that a shifted byte is detected.
fn pattern(offset: usize, len: usize, byte: u8) -> Vec<u8> {
    (offset..offset + len).map(|at| byte ^ (at / 512) as u8 ^ at as u8).collect()
}

/// Reads as often as necessary, and returns the number of bytes.
fn read_up_to(media: &dyn Media, file: FileId, offset: u64, bytes: &mut [u8]) -> usize {
    let mut done = 0;
    loop {
        match media.read_at(file, offset + done as u64, &mut bytes[done..]).unwrap() {
            0 => return done,
            read => done += read,
        }
    }
}

fn encryption() -> Encryption {
    Encryption::with_key(Key::new([7; 32]))
}

/// Returns the bytes of the file of an encrypted image; `None` if it is not there.
fn decrypted(image: Image) -> Option<Vec<u8>> {
    let disk: Arc<dyn Media> = Arc::new(SimDisk::from_image(image));
    let media = encryption().open(&disk).expect("E24.2");
    let file = media.open("file", OpenMode::Read).ok()?;
    let mut bytes = vec![0; media.len(file).unwrap() as usize];
    read_exact_at(&*media, file, 0, &mut bytes).unwrap();
    Some(bytes)
}

/// Returns all values that each byte may have after the steps.
fn possible_bytes(steps: &[Step]) -> Vec<Vec<u8>> {
    let mut possible: Vec<Vec<u8>> = vec![vec![0]; 50_000];
    for step in steps {
        if let Step::Write { offset, len, byte, .. } = *step {
            for (at, byte) in pattern(offset, len, byte).into_iter().enumerate() {
                possible[offset + at].push(byte);
            }
        }
    }
    possible
}

/// Runs the steps on a medium and on a vector, and compares all bytes read; returns the vector.
fn run(media: &dyn Media, steps: &[Step]) -> Vec<u8> {
    let file = media.open("file", OpenMode::Create).unwrap();
    media.sync_directory("").unwrap();
    let mut model: Vec<u8> = Vec::new();
    for step in steps {
        match *step {
            Step::Write { offset, len, byte, durable } => {
                let bytes = pattern(offset, len, byte);
                let durability = if durable { Durability::Durable } else { Durability::Volatile };
                assert_eq!(media.write_at(file, offset as u64, &bytes, durability).unwrap(), len);
                if len > 0 {
                    model.resize(model.len().max(offset + len), 0);
                    model[offset..offset + len].copy_from_slice(&bytes);
                }
            }
            Step::Read { offset, len } => {
                let mut bytes = vec![0; len];
                let read = read_up_to(media, file, offset as u64, &mut bytes);
                assert_eq!(bytes[..read], model[offset.min(model.len())..(offset + len).min(model.len())]);
            }
            Step::Sync => media.sync(file).unwrap(),
            Step::Allocate { len: 0, .. } => {}
            Step::Allocate { offset, len } => {
                media.allocate(file, offset as u64, len as u64).unwrap();
                model.resize(model.len().max(offset + len), 0);
            }
            Step::Punch { offset, len } => {
                media.punch(file, offset as u64, len as u64).unwrap();
                let end = model.len();
                model[offset.min(end)..(offset + len).min(end)].fill(0);
            }
            Step::WriteZeros { len: 0, .. } => media.write_zeros(file, u64::MAX / 2, 0).unwrap(),
            Step::WriteZeros { offset, len } => {
                media.write_zeros(file, offset as u64, len as u64).unwrap();
                model.resize(model.len().max(offset + len), 0);
                model[offset..offset + len].fill(0);
            }
            Step::SetLen { len } => {
                media.set_len(file, len as u64).unwrap();
                model.resize(len, 0);
            }
        }
        if media.is_encrypted() {
            model.resize(model.len().next_multiple_of(SECTOR_LEN), 0);
        }
        assert_eq!(media.len(file).unwrap(), model.len() as u64);
    }
    model
}

fn bytes(image: &Image) -> Vec<u8> {
    image.file("file").expect("its name is durable")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// E24.6: also with reads and writes that end anywhere.
    #[test]
    fn encrypted_medium_is_vector(steps in steps(), shorts: u64) {
        let disk = SimDisk::new();
        let media = encryption().open_or_create(&(Arc::new(disk.clone()) as Arc<dyn Media>)).unwrap();
        disk.shorten(Some(shorts));
        let model = run(&*media, &steps);
        disk.shorten(None);
        prop_assert_eq!(decrypted(disk.image()).unwrap(), model);
    }

    /// A1, A2, E24.6: a crash tears no sector, and a write harms no byte beside it.
    #[test]
    fn encrypted_crash_shows_no_unwritten_bytes(steps in steps(), seed: u64) {
        let disk = SimDisk::new();
        let media = encryption().open_or_create(&(Arc::new(disk.clone()) as Arc<dyn Media>)).unwrap();
        let begun = disk.journal_len();
        run(&*media, &steps);
        let journal = disk.journal();
        let mut cursor = journal.cursor();
        cursor.advance_to(begun);
        let possible = possible_bytes(&steps);
        while cursor.advance() {
            for (at, byte) in decrypted(cursor.image(Loss::Random(seed))).unwrap_or_default().into_iter().enumerate() {
                prop_assert!(possible[at].contains(&byte), "byte {} after {} entries", at, cursor.at());
            }
        }
    }

    #[test]
    fn without_faults_it_is_a_vector(steps in steps()) {
        let disk = SimDisk::new();
        let model = run(&disk, &steps);
        prop_assert_eq!(bytes(&disk.image()), &model[..]);

        // Nothing lost: the walk along the journal leads to the same bytes, and to the same hash.
        let journal = disk.journal();
        let mut cursor = journal.cursor();
        cursor.advance_to(journal.len());
        prop_assert_eq!(cursor.image(Loss::Nothing).hash(), disk.image().hash());
        prop_assert_eq!(bytes(&cursor.image(Loss::Nothing)), model);
    }

    #[test]
    fn crashes_after_final_sync_are_identical(steps in steps(), seed: u64) {
        let disk = SimDisk::new();
        let model = run(&disk, &steps);
        disk.sync(disk.open("file", OpenMode::Read).unwrap()).unwrap();
        let journal = disk.journal();
        let mut cursor = journal.cursor();
        cursor.advance_to(journal.len());
        prop_assert_eq!(cursor.volatile_changes(), 0);
        for loss in [Loss::Everything, Loss::Nothing, Loss::Random(seed), Loss::Whole(seed), Loss::TornLast(seed), Loss::Subset(seed)] {
            prop_assert_eq!(bytes(&cursor.image(loss)), &model[..]);
        }
    }

    /// After any crash, each byte is that of the last sync or of a later write.
    #[test]
    fn crash_shows_no_unwritten_bytes(steps in steps(), seed: u64) {
        let disk = SimDisk::new();
        run(&disk, &steps);
        let journal = disk.journal();
        let mut cursor = journal.cursor();
        let possible = possible_bytes(&steps);
        while cursor.advance() {
            let image = cursor.image(Loss::Random(seed));
            for (at, byte) in image.file("file").unwrap_or_default().into_iter().enumerate() {
                prop_assert!(possible[at].contains(&byte), "byte {} after {} entries", at, cursor.at());
            }
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_images(steps in steps(), seed: u64) {
        let hashes = || {
            let disk = SimDisk::new();
            disk.shorten(Some(seed));
            let file = disk.open("other", OpenMode::Create).unwrap();
            for offset in 0..5 {
                let _ = disk.write_at(file, offset, &[1; 5000], Durability::Volatile);
            }
            disk.shorten(None);
            run(&disk, &steps);
            let journal = disk.journal();
            let mut cursor = journal.cursor();
            let mut hashes = vec![cursor.image(Loss::Random(seed)).hash()];
            while cursor.advance() {
                hashes.push(cursor.image(Loss::Random(seed)).hash());
                hashes.push(cursor.image(Loss::Whole(seed)).hash());
            }
            hashes
        };
        prop_assert_eq!(hashes(), hashes());
    }
}

proptest! {
    // Each step is a call of the operating system.
    #![proptest_config(ProptestConfig::with_cases(30))]

    #[test]
    fn a_real_disk_is_a_vector_too(steps in steps(), direct: bool) {
        let directory = tempfile::tempdir().unwrap();
        let disk = if direct { RealDisk::new(directory.path()) } else { RealDisk::buffered(directory.path()) };
        let model = run(&disk, &steps);
        prop_assert_eq!(std::fs::read(directory.path().join("file")).unwrap(), model);
    }
}

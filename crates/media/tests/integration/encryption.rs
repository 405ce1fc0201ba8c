//! Encrypted directories: which keys open them, also after crashes, and what lies on the disk (E24).

#![cfg(not(cedrat_shuttle))]

use cedrat_media::{
    Call, Durability, Encryption, FileId, KEY_FILE, Key, KeyError, KeySource, Kill, Loss, Media, OpenMode, SECTOR_LEN,
    SimDisk, read_exact_at, refuse_encrypted, write_all_at,
};
use cedrat_sync::{Arc, Mutex, thread};
use std::io;
use std::sync::mpsc;
use std::time::Duration;

const SECTOR: u64 = SECTOR_LEN as u64;
const LOSSES: [Loss; 5] = [Loss::Everything, Loss::Nothing, Loss::Random(1), Loss::Random(2), Loss::Whole(3)];

fn key(byte: u8) -> Encryption {
    Encryption::with_key(Key::new([byte; 32]))
}

fn shared(disk: &SimDisk) -> Arc<dyn Media> {
    Arc::new(disk.clone())
}

/// Writes the file `a` durably, with its name.
fn write(media: &dyn Media) {
    let file = media.open("a", OpenMode::Create).or_else(|_| media.open("a", OpenMode::ReadWrite)).unwrap();
    write_all_at(media, file, 0, &[9; 2 * SECTOR_LEN], Durability::Durable).unwrap();
    media.sync_directory("").unwrap();
}

fn is_written(media: &dyn Media) -> bool {
    let mut bytes = [0; 2 * SECTOR_LEN];
    media.open("a", OpenMode::Read).and_then(|file| read_exact_at(media, file, 0, &mut bytes)).is_ok()
        && bytes == [9; 1024]
}

/// An encrypted directory with the file `a`.
fn encrypted() -> SimDisk {
    let disk = SimDisk::new();
    write(&*key(1).open_or_create(&shared(&disk)).unwrap());
    disk
}

/// Returns both slots of the key file.
fn slots(disk: &SimDisk) -> [Vec<u8>; 2] {
    let bytes = disk.image().file(KEY_FILE).expect("it is there");
    [0, 4096].map(|slot| bytes[slot..slot + SECTOR_LEN].to_vec())
}

/// E24.2: also if only the process is killed, and the power fails later (E24.2a).
#[test]
fn creation_survives_every_crash() {
    let disk = encrypted();
    let journal = disk.journal();
    let mut cursor = journal.cursor();
    loop {
        for loss in LOSSES {
            let crashed = SimDisk::from_image(cursor.image(loss));
            let is_there = crashed.image().file("a").is_some();
            let media = key(1).open_or_create(&shared(&crashed)).expect("E24.2: it has its data key");
            assert!(!is_there || crashed.image().file("a").unwrap().is_empty() || is_written(&*media), "E24.2");
        }
        for kill in [Kill::Process(1), Kill::FailedSync(1)] {
            let killed = cursor.kill(kill);
            write(&*key(1).open_or_create(&shared(&killed)).expect("E24.2"));
            let crashed = killed.cut_power(Loss::Everything);
            let media = key(1).open(&shared(&crashed)).expect("E24.2a: the data key that was found is durable");
            assert!(is_written(&*media), "E24.2a");
        }
        if !cursor.advance() {
            break;
        }
    }
}

/// E24.4.
#[test]
fn change_of_keys_survives_every_crash() {
    let disk = encrypted();
    let begun = disk.journal_len();
    key(1).rotate(&disk, &key(2)).unwrap();
    let journal = disk.journal();
    let mut cursor = journal.cursor();
    cursor.advance_to(begun);
    loop {
        for loss in LOSSES {
            let crashed = SimDisk::from_image(cursor.image(loss));
            let by: Vec<u8> = [1, 2].into_iter().filter(|&byte| key(byte).open(&shared(&crashed)).is_ok()).collect();
            assert_eq!(by.len(), 1, "E24.4: the old key or the new one opens it");
            let media = key(by[0]).open_or_create(&shared(&crashed)).unwrap();
            assert!(is_written(&*media), "E24.4");
            let [first, second] = slots(&crashed);
            assert_eq!(first, second, "E24.4: nothing is left of the other key");
            key(1).rotate(&crashed, &key(2)).expect("E24.4: it may be repeated");
            assert!(is_written(&*key(2).open(&shared(&crashed)).unwrap()), "E24.4");
        }
        if !cursor.advance() {
            break;
        }
    }
    let error = key(1).open(&shared(&disk)).expect_err("E24.4");
    assert!(matches!(error, KeyError::Wrong { .. }), "{error}");
}

/// E24.3.
#[test]
fn directory_is_refused_with_other_key() {
    let disk = encrypted();
    let before = disk.image().hash();
    let fingerprint = |byte| Key::new([byte; 32]).fingerprint();
    for error in
        [key(2).open(&shared(&disk)), key(2).open_or_create(&shared(&disk))].map(|opened| opened.expect_err("E24.3"))
    {
        let text = error.to_string();
        assert!(matches!(error, KeyError::Wrong { .. }), "E24.3: {text}");
        assert!(text.contains(&fingerprint(1)) && text.contains(&fingerprint(2)) && text.starts_with("key:"), "{text}");
    }
    assert!(key(2).rotate(&disk, &key(3)).is_err(), "E24.3");
    let error = refuse_encrypted(&disk).expect_err("E24.3");
    assert!(matches!(error, KeyError::Missing { .. }), "{error}");
    assert_eq!(disk.image().hash(), before, "E24.3: nothing was changed");
}

/// A source that returns other bytes under the right identifier.
struct Confused;

impl KeySource for Confused {
    fn newest(&self) -> io::Result<String> {
        Ok("newest".into())
    }

    fn key(&self, id: &str) -> io::Result<Key> {
        match id {
            "newest" => Err(io::Error::new(io::ErrorKind::TimedOut, "the service of keys does not answer")),
            _ => Ok(Key::new([3; 32])),
        }
    }
}

/// E24.3.
#[test]
fn bytes_of_other_key_are_refused() {
    let disk = encrypted();
    let confused = Encryption::with_source(Confused);
    let error = confused.open(&shared(&disk)).expect_err("E24.3");
    assert!(matches!(error, KeyError::Wrong { .. }), "E24.3: {error}");
    let error = confused.open_or_create(&shared(&SimDisk::new())).expect_err("it has no key");
    assert!(matches!(&error, KeyError::Source { source, .. } if source.kind() == io::ErrorKind::TimedOut), "{error}");
}

/// E24.3.
#[test]
fn plain_directory_is_refused_with_key() {
    let disk = SimDisk::new();
    write(&disk);
    let before = disk.image().hash();
    for error in
        [key(1).open(&shared(&disk)), key(1).open_or_create(&shared(&disk))].map(|opened| opened.expect_err("E24.3"))
    {
        assert!(matches!(&error, KeyError::NotEncrypted { file } if file == "a"), "E24.3: {error}");
    }
    assert_eq!(disk.image().hash(), before, "E24.3: nothing was changed");
    let error = key(1).open(&shared(&SimDisk::new())).expect_err("it is empty");
    assert!(matches!(error, KeyError::Absent { .. }), "{error}");
    assert!(refuse_encrypted(&disk).is_ok());
}

/// E24.3: one damaged slot is replaced, and two are no reason for a new data key.
#[test]
fn damaged_key_file_is_refused() {
    let disk = encrypted();
    let file = disk.open(KEY_FILE, OpenMode::ReadWrite).unwrap();
    for at in [12, 40, 60, 92, 108, 511] {
        let broken = SimDisk::from_image(disk.image());
        let file = broken.open(KEY_FILE, OpenMode::ReadWrite).unwrap();
        let byte = slots(&disk)[0][at] ^ 4;
        write_all_at(&broken, file, at as u64, &[byte], Durability::Durable).unwrap();
        assert!(is_written(&*key(1).open_or_create(&shared(&broken)).expect("the other slot is whole")));
        assert_eq!(slots(&broken), slots(&disk), "E24.2a: both slots are whole again");
    }
    for slot in [0, 4096] {
        write_all_at(&disk, file, slot + 70, &[1, 2, 3], Durability::Durable).unwrap();
    }
    let before = disk.image().hash();
    for error in
        [key(1).open(&shared(&disk)), key(1).open_or_create(&shared(&disk))].map(|opened| opened.expect_err("E24.3"))
    {
        assert!(matches!(&error, KeyError::Damaged { file, offset: 8, .. } if file == KEY_FILE), "E24.3: {error}");
    }
    assert_eq!(disk.image().hash(), before, "E24.3: nothing was changed");
}

/// E24.1, E24.5.
#[test]
fn equal_sectors_are_encrypted_differently() {
    let disk = SimDisk::new();
    let media = key(1).open_or_create(&shared(&disk)).unwrap();
    for name in ["a", "log/b"] {
        let file = media.open(name, OpenMode::Create).unwrap();
        for byte in [0, 5, 5, 0] {
            let end = media.len(file).unwrap();
            write_all_at(&*media, file, end, &[byte; SECTOR_LEN], Durability::Volatile).unwrap();
        }
    }
    let mut sectors: Vec<Vec<u8>> = ["a", "log/b"]
        .into_iter()
        .flat_map(|name| disk.image().file(name).unwrap().chunks(SECTOR_LEN).map(<[u8]>::to_vec).collect::<Vec<_>>())
        .collect();
    assert!(sectors.iter().all(|sector| *sector != [0; SECTOR_LEN] && *sector != [5; SECTOR_LEN]), "E24.1");
    sectors.sort();
    sectors.dedup();
    assert_eq!(sectors.len(), 8, "E24.5");
}

/// E24.1b: whole sectors only; the bytes beside them stay.
#[test]
fn zeros_before_use_stay_plain() {
    let disk = SimDisk::new();
    let media = key(1).open_or_create(&shared(&disk)).unwrap();
    let file = media.open("a", OpenMode::Create).unwrap();
    write_all_at(&*media, file, 0, &[9; 6 * SECTOR_LEN], Durability::Durable).unwrap();
    media.write_zeros(file, SECTOR / 2, 3 * SECTOR).unwrap();
    media.write_zeros(file, 4 * SECTOR + 1, SECTOR - 2).unwrap();
    media.write_zeros(file, 6 * SECTOR, 2 * SECTOR).unwrap();
    let found = disk.image().file("a").unwrap();
    let plain: Vec<bool> = found.chunks(SECTOR_LEN).map(|sector| *sector == [0; SECTOR_LEN]).collect();
    assert_eq!(plain, [false, true, true, false, false, false, true, true], "E24.1b");

    let mut expected = [&[9; 6 * SECTOR_LEN][..], &[0; 2 * SECTOR_LEN]].concat();
    expected[SECTOR_LEN / 2..][..3 * SECTOR_LEN].fill(0);
    expected[4 * SECTOR_LEN + 1..5 * SECTOR_LEN - 1].fill(0);
    let mut bytes = vec![1; 8 * SECTOR_LEN];
    read_exact_at(&*media, file, 0, &mut bytes).unwrap();
    assert_eq!(bytes, expected, "E24.6");
}

/// E24.6: another change of the sector begins when a write of its first half has read it.
#[test]
fn partial_writes_keep_other_bytes() {
    const HALF: usize = SECTOR_LEN / 2;
    type Change = fn(&dyn Media, FileId);
    let changes: [(Change, u8); 3] = [
        (|media, file| write_all_at(media, file, HALF as u64, &[2; HALF], Durability::Volatile).unwrap(), 2),
        (|media, file| media.punch(file, 0, SECTOR).unwrap(), 0),
        (|media, file| media.write_zeros(file, 0, SECTOR).unwrap(), 0),
    ];
    for (change, expected) in changes {
        let disk = SimDisk::new();
        let media = key(1).open_or_create(&shared(&disk)).unwrap();
        write(&*media);
        let file = media.open("a", OpenMode::ReadWrite).unwrap();
        let (begin, begun) = mpsc::channel();
        let (ended, end) = mpsc::channel();
        let other = thread::spawn({
            let media = Arc::clone(&media);
            move || {
                begun.recv().unwrap();
                change(&*media, file);
                ended.send(()).unwrap();
            }
        });
        let once = Mutex::new(Some(begin));
        let end = Mutex::new(end);
        disk.before_each_call(move |_, call, name| {
            let first = if call == Call::Write && name == "a" { once.lock().take() } else { None };
            if let Some(begin) = first {
                begin.send(()).unwrap();
                // It ends only if it does not wait for this write.
                end.lock().recv_timeout(Duration::from_millis(500)).ok();
            }
        });
        write_all_at(&*media, file, 0, &[1; HALF], Durability::Volatile).unwrap();
        other.join().unwrap();
        let mut bytes = [0; SECTOR_LEN];
        read_exact_at(&*media, file, 0, &mut bytes).unwrap();
        assert_eq!(bytes[HALF..], [expected; HALF], "E24.6");
    }
}

#[test]
fn key_file_is_hidden() {
    let media = key(1).open(&shared(&encrypted())).unwrap();
    assert_eq!(media.list("").unwrap(), ["a"]);
    assert!(media.open(KEY_FILE, OpenMode::ReadWrite).is_err() && media.remove(KEY_FILE).is_err());
    assert!(media.lock(KEY_FILE).is_err());
    assert!(Arc::ptr_eq(&media, &key(2).open(&media).expect("it is one already")));
}

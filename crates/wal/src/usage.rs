//! The use of the bytes of segment files, for tools.

use cedrat_media::OpenMode;

use crate::error::LogError;
use crate::look;
use crate::open::Found;
use crate::segment::{Geometry, SEGMENT_HEADER_LEN, file_name};
use crate::{LogOffset, PartitionId};

/// The use of the bytes of one segment file. The fields with bytes add up to the length of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SegmentUse {
    /// The name of the file in the directory of the store.
    pub file: String,
    /// The partition that uses the file; `None` if it is prepared for a later use.
    pub partition: Option<PartitionId>,
    /// Bytes of the header.
    pub header: u64,
    /// Bytes of blocks that nothing needs any more. They are recycled with their segment.
    pub released: u64,
    /// Bytes of blocks before the redo point that are kept: for open or prepared transactions, heaps, the archive or consumers.
    pub before_redo: u64,
    /// Bytes of blocks from the redo point on.
    pub redo: u64,
    /// Bytes without records, prepared for later blocks.
    pub prepared: u64,
}

impl SegmentUse {
    /// Returns the length of the file.
    pub fn bytes(&self) -> u64 {
        self.header + self.released + self.before_redo + self.redo + self.prepared
    }
}

impl Found {
    /// Returns the use of each segment file, in the order of their names.
    ///
    /// # Errors
    /// [`LogError::Damaged`], with file and offset; [`LogError::Io`].
    pub fn segments(&self) -> Result<Vec<SegmentUse>, LogError> {
        let media = &**self.media();
        let (in_use, files) = look::files(media, self.control(), OpenMode::Read)?;
        let mut found = Vec::new();
        for (index, segments) in in_use.iter().enumerate() {
            let partition = PartitionId(index as u16);
            let scan = self.control().partitions[index].scan_from;
            let redo = self.end_before(partition, self.control().checkpoint.redo_lsn.previous())?;
            let ends = [scan, redo.max(scan), self.ends()[index].max(redo)];
            for (&sequence, slot) in &*segments.read() {
                let len =
                    media.len(slot.file).map_err(|error| LogError::io(format!("measuring {}", slot.name), error))?;
                found.push(self.in_use(slot.name.clone(), partition, sequence, len, ends));
            }
        }
        let free = files.free.iter().map(|slot| slot.name.clone());
        for name in free.chain(files.unready.iter().map(|&number| file_name(number))) {
            let failed = |error| LogError::io(format!("measuring {name}"), error);
            let len = media.open(&name, OpenMode::Read).and_then(|file| media.len(file)).map_err(failed)?;
            found.push(unused(name, len));
        }
        found.sort_by(|one, other| one.file.cmp(&other.file));
        Ok(found)
    }

    /// Returns the use of a file of `len` bytes that has a partition's segment `sequence`.
    fn in_use(
        &self,
        file: String,
        partition: PartitionId,
        sequence: u64,
        len: u64,
        ends: [LogOffset; 3],
    ) -> SegmentUse {
        let geometry = Geometry { segment_len: self.control().segment_len };
        let begin = geometry.begin(sequence).get();
        let header = SEGMENT_HEADER_LEN.min(len);
        // The last block of a segment may end behind its file.
        let place = |offset: LogOffset| (header + offset.get().saturating_sub(begin)).min(len);
        let [scan, redo, end] = ends.map(place);
        SegmentUse {
            file,
            partition: Some(partition),
            header,
            released: scan - header,
            before_redo: redo - scan,
            redo: end - redo,
            prepared: len - end,
        }
    }
}

/// Returns the use of a file of `len` bytes that no partition uses.
fn unused(file: String, len: u64) -> SegmentUse {
    let header = SEGMENT_HEADER_LEN.min(len);
    SegmentUse { file, partition: None, header, released: 0, before_redo: 0, redo: 0, prepared: len - header }
}

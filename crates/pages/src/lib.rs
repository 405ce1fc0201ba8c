//! Pages in memory and at home: buffer pool, latches, layouts, write-back.

//! Bytes kept to be read again: in memory, and past 1 MiB in a file without a name.

use std::env;
use std::fs::{self, File};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};

/// Beyond this, the bytes go to a file.
const IN_MEMORY: usize = 1 << 20;

/// Bytes kept to be read again.
#[derive(Debug, Default)]
pub(super) struct Spool {
    memory: Vec<u8>,
    file: Option<File>,
    length: u64,
}

impl Spool {
    /// How many bytes it holds.
    pub(super) fn len(&self) -> u64 {
        self.length
    }

    /// Adds `bytes` at the end.
    ///
    /// # Errors
    ///
    /// The file could not be made or written: a full disk, a directory that is missing. What was in the spool before
    /// can still be read.
    pub(super) fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.file.is_none() && self.memory.len() + bytes.len() > IN_MEMORY {
            let file = unnamed_file()?;
            file.write_all_at(&self.memory, 0)?;
            self.file = Some(file);
            self.memory = Vec::new();
        }
        match &self.file {
            Some(file) => file.write_all_at(bytes, self.length)?,
            None => self.memory.extend_from_slice(bytes),
        }
        self.length += bytes.len() as u64;
        Ok(())
    }

    /// Reads from `position` into `buffer`; 0 at the end.
    pub(super) fn read_at(&self, position: u64, buffer: &mut [u8]) -> io::Result<usize> {
        if let Some(file) = &self.file {
            let left = usize::try_from(self.length.saturating_sub(position)).unwrap_or(usize::MAX);
            let wanted = left.min(buffer.len());
            return file.read_at(buffer.get_mut(..wanted).unwrap_or_default(), position);
        }
        let rest =
            usize::try_from(position).ok().and_then(|from| self.memory.get(from..)).unwrap_or_default();
        let taken = rest.len().min(buffer.len());
        if let (Some(to), Some(from)) = (buffer.get_mut(..taken), rest.get(..taken)) {
            to.copy_from_slice(from);
        }
        Ok(taken)
    }

    /// Forgets everything, and gives the space back.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}

/// A file that only we can read and that is gone when we are, even if we are killed.
fn unnamed_file() -> io::Result<File> {
    let directory = env::temp_dir();
    for turn in 0..64u8 {
        let path = directory.join(format!("relent-{:016x}", RandomState::new().hash_one(turn)));
        match File::options().read(true).write(true).create_new(true).mode(0o600).open(&path) {
            Ok(file) => {
                fs::remove_file(&path)?;
                return Ok(file);
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_in_comes_out_in_memory_and_in_a_file() {
        let mut spool = Spool::default();
        let mut expected = Vec::new();
        for turn in 0..40u8 {
            let chunk = vec![turn; 40_000 + usize::from(turn)];
            spool.append(&chunk).unwrap();
            expected.extend(chunk);
            assert_eq!(spool.file.is_some(), expected.len() > IN_MEMORY, "after {} bytes", expected.len());
        }
        let mut read = Vec::new();
        let mut buffer = [0; 777];
        loop {
            let count = spool.read_at(read.len() as u64, &mut buffer).unwrap();
            if count == 0 {
                break;
            }
            read.extend_from_slice(&buffer[..count]);
        }
        assert!(read == expected);
        assert_eq!(spool.len(), expected.len() as u64);
        spool.clear();
        assert_eq!((spool.len(), spool.read_at(0, &mut buffer).unwrap()), (0, 0));
    }
}

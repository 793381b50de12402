//! Who may open a link: nobody while a change of its controller's settings is open, and one process at a time.

use std::net::ToSocketAddrs;
use std::sync::Arc;

use parking_lot::Mutex;

use super::flash;
use crate::config::{Link, Port, Rig};
use crate::devices::link::Leave;
use crate::gateway::local::Sole;

/// Whether a link of this rig may be opened now. A device on the network that was once opened is this process's until
/// its end, as a serial port would be.
pub(super) fn leave(rig: &Rig, link: &Link) -> Leave {
    let whole = flash::leave(link);
    // A demonstration has a bench of its own.
    let (Port::Tcp(address), Some(file)) = (&link.port, &rig.file) else { return whole };
    let (address, rig) = (address.clone(), file.display().to_string());
    let sole: Mutex<Option<Sole>> = Mutex::new(None);
    Arc::new(move || {
        whole()?;
        let mut sole = sole.lock();
        if sole.is_some() {
            return Ok(());
        }
        match Sole::take(&spelled(&address), &rig) {
            Ok(Ok(taken)) => *sole = Some(taken),
            Ok(Err(who)) => {
                return Err(format!(
                    "tcp://{address} is in use by {who}: end that program, or serve one rig file alone; two programs must \
                     not drive one device"
                ));
            }
            // As for the rig itself: where there is no folder for locks there is a warning already.
            Err(error) => tracing::warn!("nobody else is kept away from tcp://{address}: {error}"),
        }
        Ok(())
    })
}

/// One spelling of an address, whatever name was given.
fn spelled(address: &str) -> String {
    let numbers = address.to_socket_addrs().ok().and_then(|all| all.min());
    numbers.map_or_else(|| address.to_owned(), |a| a.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_is_spelled_one_way() {
        assert_eq!(spelled("127.0.0.1:4000"), "127.0.0.1:4000");
        assert_eq!(spelled("no name at all"), "no name at all");
    }
}

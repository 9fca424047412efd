//! Remembers DNS answers given to a room: which address belongs to which name.
//!
//! Pure: time is an argument. A name that may not be looked up gets its own synthetic address, so
//! that the connection reaches us and is refused with a reason; so does a name whose address means
//! something else inside the room. Both tables are bounded; the oldest entries are evicted.

use std::{
    collections::{HashMap, VecDeque},
    net::IpAddr,
    time::{Duration, Instant},
};

use hothouse_model::{
    config::HostName,
    policy::{STAND_INS, stand_in_number, stand_ins},
};

/// How long an address belongs to a name after it was last given out. Clients keep addresses longer
/// than they should, and longer than most TTLs.
const LIFE: Duration = Duration::from_secs(3600);

const ADDRESSES: usize = 16_384;
/// An address with many names is a CDN; only the newest names are kept.
const NAMES_PER_ADDRESS: usize = 32;

/// The table of one room.
#[derive(Debug, Default)]
pub struct NameBook {
    answered: HashMap<IpAddr, VecDeque<(HostName, Instant)>>,
    /// In the order in which addresses were first given out.
    order: VecDeque<IpAddr>,
    synthetic: Vec<HostName>,
    numbers: HashMap<HostName, u32>,
    next: u32,
}

impl NameBook {
    /// Records that an address was given out for a name.
    pub fn note(&mut self, address: IpAddr, name: &HostName, now: Instant) {
        let address = address.to_canonical();
        if !self.answered.contains_key(&address) {
            if self.order.len() >= ADDRESSES
                && let Some(oldest) = self.order.pop_front()
            {
                self.answered.remove(&oldest);
            }
            self.order.push_back(address);
        }
        let names = self.answered.entry(address).or_default();
        names.retain(|(known, until)| known != name && *until > now);
        if names.len() >= NAMES_PER_ADDRESS {
            names.pop_front();
        }
        names.push_back((name.clone(), now + LIFE));
    }

    /// Returns the names that an address belongs to, newest first.
    pub fn names(&self, address: IpAddr, now: Instant) -> Vec<HostName> {
        if let Some(name) = self.synthetic_name(address) {
            return vec![name.clone()];
        }
        let known = self.answered.get(&address.to_canonical()).into_iter().flatten().rev();
        known.filter(|(_, until)| *until > now).map(|(name, _)| name.clone()).collect()
    }

    /// Returns the synthetic addresses of a name, assigning them if necessary.
    pub fn synthesize(&mut self, name: &HostName) -> [IpAddr; 2] {
        let number = match self.numbers.get(name) {
            Some(number) => *number,
            None => self.number(name),
        };
        stand_ins(number)
    }

    fn number(&mut self, name: &HostName) -> u32 {
        let number = self.next % STAND_INS;
        self.next = self.next.wrapping_add(1) % STAND_INS;
        match self.synthetic.get_mut(number as usize) {
            Some(taken) => {
                let old = std::mem::replace(taken, name.clone());
                self.numbers.remove(&old);
            }
            None => self.synthetic.push(name.clone()),
        }
        self.numbers.insert(name.clone(), number);
        number
    }

    /// Returns the name with this synthetic address.
    pub fn synthetic_name(&self, address: IpAddr) -> Option<&HostName> {
        let number = stand_in_number(address)?;
        self.synthetic.get(usize::try_from(number).ok()?)
    }
}

/// Returns whether an address is from the synthetic range.
pub fn is_synthetic(address: IpAddr) -> bool {
    stand_in_number(address).is_some()
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn name(text: &str) -> HostName {
        text.parse().unwrap()
    }

    #[test]
    fn an_address_stands_for_its_names_for_a_while() {
        let mut book = NameBook::default();
        let (now, address) = (Instant::now(), "1.2.3.4".parse().unwrap());
        book.note(address, &name("a.example"), now);
        book.note("::ffff:1.2.3.4".parse().unwrap(), &name("b.example"), now);
        assert_eq!(book.names(address, now), [name("b.example"), name("a.example")]);
        assert!(book.names(address, now + LIFE).is_empty());
        assert!(book.names("1.2.3.5".parse().unwrap(), now).is_empty());
    }

    #[test]
    fn a_name_keeps_its_synthetic_addresses() {
        let mut book = NameBook::default();
        let first = book.synthesize(&name("a.example"));
        let second = book.synthesize(&name("b.example"));
        assert_eq!(book.synthesize(&name("a.example")), first);
        assert_ne!(first, second);
        for address in first {
            assert!(is_synthetic(address));
            assert_eq!(book.names(address, Instant::now()), [name("a.example")]);
        }
        assert!(!is_synthetic("198.18.0.0".parse().unwrap()));
        assert!(!is_synthetic("1.2.3.4".parse().unwrap()));
        assert_eq!(book.synthetic_name("198.18.9.9".parse().unwrap()), None);
    }

    #[test]
    fn neither_table_grows_without_end() {
        let mut book = NameBook::default();
        let now = Instant::now();
        for number in 0..ADDRESSES + 100 {
            let address = Ipv4Addr::from_bits(u32::try_from(number).unwrap() + (1 << 24)).into();
            book.note(address, &name(&format!("h{number}.example")), now);
        }
        assert_eq!((book.answered.len(), book.order.len()), (ADDRESSES, ADDRESSES));
        for number in 0..STAND_INS + 10 {
            book.synthesize(&name(&format!("h{number}.example")));
        }
        assert_eq!(book.synthetic.len(), STAND_INS as usize);
        assert_eq!(book.numbers.len(), STAND_INS as usize);
        let [reused, _] = book.synthesize(&name(&format!("h{STAND_INS}.example")));
        assert_eq!(book.synthetic_name(reused), Some(&name(&format!("h{STAND_INS}.example"))));
        let address = "9.9.9.9".parse().unwrap();
        for number in 0..NAMES_PER_ADDRESS + 5 {
            book.note(address, &name(&format!("n{number}.example")), now);
        }
        assert_eq!(book.names(address, now).len(), NAMES_PER_ADDRESS);
    }
}

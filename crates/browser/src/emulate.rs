//! Emulates a device, a locale and a time zone.

use hothouse_model::{
    browse::{BrowseSpec, Viewport},
    config::rules::nearest,
};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::wire::Command;

/// A device that can be emulated.
pub struct Device {
    pub name: &'static str,
    width: u32,
    height: u32,
    scale: f64,
    mobile: bool,
    agent: &'static str,
}

const IPHONE: &str = "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.0 Mobile/15E148 Safari/604.1";
const IPAD: &str = "Mozilla/5.0 (iPad; CPU OS 18_0 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.0 Mobile/15E148 Safari/604.1";
const ANDROID: &str = "Mozilla/5.0 (Linux; Android 15; Pixel 9) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/150.0.0.0 Mobile Safari/537.36";

/// All devices.
pub const DEVICES: [Device; 9] = [
    Device { name: "iPhone SE", width: 375, height: 667, scale: 2.0, mobile: true, agent: IPHONE },
    Device { name: "iPhone 15", width: 393, height: 852, scale: 3.0, mobile: true, agent: IPHONE },
    Device {
        name: "iPhone 15 Pro Max",
        width: 430,
        height: 932,
        scale: 3.0,
        mobile: true,
        agent: IPHONE,
    },
    Device { name: "Pixel 9", width: 412, height: 924, scale: 2.625, mobile: true, agent: ANDROID },
    Device {
        name: "Galaxy S24",
        width: 360,
        height: 780,
        scale: 3.0,
        mobile: true,
        agent: ANDROID,
    },
    Device { name: "iPad Mini", width: 768, height: 1024, scale: 2.0, mobile: true, agent: IPAD },
    Device { name: "iPad Pro", width: 1024, height: 1366, scale: 2.0, mobile: true, agent: IPAD },
    Device { name: "Desktop", width: 1280, height: 720, scale: 1.0, mobile: false, agent: "" },
    Device {
        name: "Desktop HiDPI",
        width: 1280,
        height: 720,
        scale: 2.0,
        mobile: false,
        agent: "",
    },
];

/// The emulated settings of a page.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Emulation {
    viewport: Option<Viewport>,
    scale: Option<f64>,
    mobile: bool,
    agent: Option<&'static str>,
    locale: Option<String>,
    timezone: Option<String>,
    clock: Option<Timestamp>,
    reduced_motion: bool,
}

/// An invalid setting.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotEmulated {
    #[error("no device is called `{typed}`")]
    Device { typed: String, near: Option<&'static str> },
    #[error("`{0}` is not a time in RFC 3339, such as 2026-03-01T09:00:00Z")]
    Clock(String),
    #[error("`{0}` is not a time zone, such as Europe/Stockholm")]
    Timezone(String),
    #[error("`{0}` is not a locale, such as sv-SE")]
    Locale(String),
}

impl hothouse_model::Explain for NotEmulated {
    fn kind(&self) -> hothouse_model::FailureKind {
        hothouse_model::FailureKind::Usage
    }

    fn hints(&self) -> Vec<String> {
        match self {
            Self::Device { near: Some(near), .. } => vec![format!("did you mean `{near}`?")],
            Self::Device { near: None, .. } => {
                let names: Vec<&str> = DEVICES.iter().map(|device| device.name).collect();
                vec![format!("devices: {}", names.join(", "))]
            }
            _ => Vec::new(),
        }
    }
}

/// Returns whether a text consists of alphanumeric parts.
fn is_worded(text: &str, between: &[char]) -> bool {
    text.len() <= 64
        && text
            .split(between)
            .all(|part| !part.is_empty() && part.bytes().all(|c| c.is_ascii_alphanumeric()))
}

impl Emulation {
    /// Reads the requested settings.
    pub fn of(spec: &BrowseSpec) -> Result<Self, NotEmulated> {
        let device = spec.device.as_deref().map(find).transpose()?;
        let clock = spec
            .clock
            .as_ref()
            .map(|text| text.parse::<Timestamp>().map_err(|_| NotEmulated::Clock(text.clone())));
        if let Some(locale) = spec.locale.as_ref().filter(|text| !is_worded(text, &['-', '_'])) {
            return Err(NotEmulated::Locale(locale.clone()));
        }
        let is_zone = |text: &str| is_worded(text, &['/', '_', '-', '+']);
        if let Some(zone) = spec.timezone.as_ref().filter(|text| !is_zone(text)) {
            return Err(NotEmulated::Timezone(zone.clone()));
        }
        let size = device.map(|it| Viewport { width: it.width, height: it.height });
        Ok(Self {
            viewport: spec.viewport.or(size),
            scale: device.map(|it| it.scale),
            mobile: device.is_some_and(|it| it.mobile),
            agent: device.map(|it| it.agent).filter(|agent| !agent.is_empty()),
            locale: spec.locale.clone(),
            timezone: spec.timezone.clone(),
            clock: clock.transpose()?,
            reduced_motion: spec.reduced_motion,
        })
    }

    /// Returns the size of the window.
    pub fn viewport(&self) -> Viewport {
        self.viewport.unwrap_or(Viewport { width: 1280, height: 720 })
    }

    /// Returns the commands to send before a page is opened.
    pub fn commands(&self, session: &str) -> Vec<Command> {
        let Viewport { width, height } = self.viewport();
        let metrics = json!({
            "width": width, "height": height, "deviceScaleFactor": self.scale.unwrap_or(1.0), "mobile": self.mobile,
        });
        let mut all: Vec<(&'static str, Value)> =
            vec![("Emulation.setDeviceMetricsOverride", metrics)];
        if self.mobile {
            all.push(("Emulation.setTouchEmulationEnabled", json!({ "enabled": true })));
        }
        if self.agent.is_some() || self.locale.is_some() {
            // An empty name keeps the browser's own; scripts also see the language.
            let language = self.locale.clone().unwrap_or_default();
            let params =
                json!({ "userAgent": self.agent.unwrap_or_default(), "acceptLanguage": language });
            all.push(("Emulation.setUserAgentOverride", params));
        }
        if let Some(locale) = &self.locale {
            all.push((
                "Emulation.setLocaleOverride",
                json!({ "locale": locale.replace('-', "_") }),
            ));
            let headers = json!({ "headers": { "Accept-Language": locale } });
            all.push(("Network.setExtraHTTPHeaders", headers));
        }
        if let Some(zone) = &self.timezone {
            all.push(("Emulation.setTimezoneOverride", json!({ "timezoneId": zone })));
        }
        if self.reduced_motion {
            let features = json!([{ "name": "prefers-reduced-motion", "value": "reduce" }]);
            all.push(("Emulation.setEmulatedMedia", json!({ "features": features })));
        }
        all.into_iter().map(|(method, params)| Command::new(session, method, params)).collect()
    }

    /// Returns the scripts to run before those of a page.
    pub fn scripts(&self) -> Vec<String> {
        let clock = self.clock.map(|clock| {
            format!("({})({});", include_str!("scripts/clock.js"), clock.as_millisecond())
        });
        // Libraries for analytics drop what a browser without a window sends, which a page does for nobody else.
        let ordinary = format!("({})();", include_str!("scripts/ordinary.js"));
        clock.into_iter().chain([ordinary]).collect()
    }
}

fn find(typed: &str) -> Result<&'static Device, NotEmulated> {
    let plain = |text: &str| text.to_ascii_lowercase().replace(['-', '_', ' '], "");
    let found = DEVICES.iter().find(|device| plain(device.name) == plain(typed));
    found.ok_or_else(|| NotEmulated::Device {
        typed: typed.to_owned(),
        near: nearest(typed, DEVICES.iter().map(|device| device.name)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_found_however_it_is_written() {
        for typed in ["iPhone 15", "iphone-15", "IPHONE15"] {
            assert_eq!(find(typed).unwrap().width, 393, "{typed}");
        }
        let near = find("iPhone 16").err().unwrap();
        assert!(matches!(near, NotEmulated::Device { near: Some(_), .. }));
    }

    #[test]
    fn what_cannot_be_is_refused_before_a_browser_is_started() {
        let of = |change: &dyn Fn(&mut BrowseSpec)| {
            let mut spec = BrowseSpec::page("web", "/");
            change(&mut spec);
            Emulation::of(&spec)
        };
        assert!(of(&|spec| spec.clock = Some("noon".into())).is_err());
        assert!(of(&|spec| spec.timezone = Some("Mars; rm".into())).is_err());
        assert!(of(&|spec| spec.locale = Some("sv SE".into())).is_err());
        let fine = of(&|spec| {
            spec.clock = Some("2026-03-01T09:00:00Z".into());
            spec.timezone = Some("America/Argentina/Buenos_Aires".into());
            spec.locale = Some("sv-SE".into());
            spec.device = Some("Pixel 9".into());
        })
        .unwrap();
        let told: Vec<_> = fine.commands("S").into_iter().map(|command| command.method).collect();
        assert!(
            told.contains(&"Emulation.setTimezoneOverride")
                && told.contains(&"Emulation.setUserAgentOverride")
        );
        assert!(fine.scripts()[0].contains("1772355600000"));
    }
}

//! Converts the sections of a file to the public types, and refuses what no schema can.

use super::LoadError;
use crate::{
    ByMember, Cardinality, Companions, DeletionRules, FinishedWhen, Guard, NamePattern, Placement, Query,
    Reference, Required, Return, ReturnName, StatusRules, Suspension, WriteBack,
    companions::core_plural,
    file::{
        RETURN_BYTES, SOURCE_BYTES, STATUS_BYTES,
        kind::{
            Before, CompanionsFile, DeletionFile, GuardFile, PlacementFile, ReferenceFile, ReturnFile,
            StatusFile, WriteBackFile,
        },
        platform::{Operator, SelectorFile},
    },
};
use fedgate_api::names;
use kube::core::{ApiResource, Expression, GroupVersionKind, Selector};
use serde_saphyr::Spanned;
use std::ops::RangeInclusive;

/// The sizes that a file may name, in bytes.
const BYTES: RangeInclusive<u32> = (1 << 10)..=(512 << 10);

/// The longest prefix of policies of a kind with `cardinality: exactlyOne`: a member's name follows it.
const LONGEST_PREFIX: usize = 10;

/// Prefixes of the policies that deliver companions.
const COMPANIONS_PREFIXES: [&str; 3] = ["with-", "keep-", "park-"];

/// The condition types that the gateway owns unless the file names others.
const OWN_CONDITIONS: [&str; 4] = ["Federated", "Scheduled", "Applied", "StatusCurrent"];

/// The file of the sections, and the values on which they all depend.
pub(super) struct Parts<'a> {
    pub(super) file: &'a str,
    pub(super) cardinality: Cardinality,
}

impl Parts<'_> {
    fn refuse<T, V>(&self, at: &Spanned<V>, message: impl Into<String>) -> Result<T, LoadError> {
        Err(LoadError::at(self.file, at.referenced.line(), message))
    }

    fn query(&self, text: &Spanned<String>) -> Result<Query, LoadError> {
        Query::parse(&text.value).or_else(|error| self.refuse(text, error.to_string()))
    }

    pub(super) fn object_name(&self, field: &str, text: &Spanned<String>) -> Result<String, LoadError> {
        if names::is_object_name(&text.value) {
            return Ok(text.value.clone());
        }
        let message = format!(
            "{field} {:?} is no object name: lower-case letters, digits, '-' and '.'",
            text.value
        );
        self.refuse(text, message)
    }

    /// The value that was given, unless it is refused, else the default.
    fn given_or<T: Copy>(
        &self,
        given: Option<&Spanned<T>>,
        default: T,
        is_refused: impl Fn(T) -> bool,
        why: &str,
    ) -> Result<T, LoadError> {
        match given {
            Some(given) if is_refused(given.value) => self.refuse(given, why),
            given => Ok(given.map_or(default, |given| given.value)),
        }
    }

    fn is_one(&self) -> bool {
        self.cardinality == Cardinality::ExactlyOne
    }

    /// A size in bytes.
    fn bytes(&self, field: &str, given: Option<&Spanned<i64>>, default: u32) -> Result<u32, LoadError> {
        match given {
            None => Ok(default),
            Some(given) => match u32::try_from(given.value) {
                Ok(bytes) if BYTES.contains(&bytes) => Ok(bytes),
                _ => {
                    let message = format!(
                        "{field} {} is out of range; allowed are {} to {} bytes",
                        given.value,
                        BYTES.start(),
                        BYTES.end()
                    );
                    self.refuse(given, message)
                }
            },
        }
    }

    pub(super) fn placement(&self, section: PlacementFile) -> Result<Placement, LoadError> {
        let prefix = &section.policy_prefix;
        if !names::is_object_name(&format!("{}x", prefix.value)) {
            let message =
                "policyPrefix must begin an object name: lower-case letters, digits, '-' and '.', e.g. city-";
            return self.refuse(prefix, message);
        }
        if self.is_one() {
            self.lanes_prefix(prefix)?;
        }
        if section.label.value.is_empty() {
            let message = "label is empty; name the label of Karmada Clusters that holds the city code";
            return self.refuse(&section.label, message);
        }
        let why = "immutable must be true with cardinality: exactlyOne, allowed is true: what lives at one member does not \
             move";
        let is_mobile = |immutable: bool| !immutable && self.is_one();
        let immutable = self.given_or(section.immutable.as_ref(), self.is_one(), is_mobile, why)?;
        Ok(Placement {
            path: self.query(&section.path)?,
            cardinality: self.cardinality,
            immutable,
            require_member_api: section.require_member_api.unwrap_or(self.is_one()),
            label: section.label.value,
            policy_prefix: section.policy_prefix.value,
        })
    }

    fn lanes_prefix(&self, prefix: &Spanned<String>) -> Result<(), LoadError> {
        let text = &prefix.value;
        if text.len() > LONGEST_PREFIX {
            let message = format!(
                "policyPrefix {text:?} has {} characters; allowed are {LONGEST_PREFIX} with cardinality: exactlyOne",
                text.len()
            );
            return self.refuse(prefix, message);
        }
        if COMPANIONS_PREFIXES.iter().any(|taken| text.starts_with(taken)) {
            let message = format!(
                "policyPrefix {text:?} begins as the policies of companions do; allowed is what does not begin with {}",
                COMPANIONS_PREFIXES.join(", ")
            );
            return self.refuse(prefix, message);
        }
        Ok(())
    }

    pub(super) fn suspension(&self, given: Option<&Spanned<Suspension>>) -> Result<Suspension, LoadError> {
        let (only, why) = if self.is_one() {
            let why = "suspension: annotation is not for cardinality: exactlyOne; allowed is dispatch";
            (Suspension::Dispatch, why)
        } else {
            let why = "suspension: dispatch needs cardinality: exactlyOne, since a lane stops the dispatch, and only what lives \
                 at one member has lanes; allowed without it is annotation";
            (Suspension::Annotation, why)
        };
        self.given_or(given, only, |given| given != only, why)
    }

    pub(super) fn status(&self, section: StatusFile) -> Result<StatusRules, LoadError> {
        let own = section.own_conditions;
        Ok(StatusRules {
            counters: section.counters,
            own_conditions: own.unwrap_or_else(|| OWN_CONDITIONS.map(str::to_owned).to_vec()),
            max_bytes: self.bytes("status.maxBytes", section.max_bytes.as_ref(), STATUS_BYTES)?,
            conditions_in: section.conditions_in,
        })
    }

    pub(super) fn companions(&self, section: CompanionsFile) -> Result<Companions, LoadError> {
        let references = section.references.iter().map(|found| self.reference(found));
        Ok(Companions {
            references: references.collect::<Result<_, LoadError>>()?,
            expected_annotation: section.expected_annotation,
            error_annotation: section.error_annotation,
        })
    }

    fn reference(&self, found: &ReferenceFile) -> Result<Reference, LoadError> {
        let resource = self.companion_resource(found)?;
        let why = "required: unlessOptional needs nameField: without it nothing stands beside the name; allowed in its place is \
             optional";
        let lacks_field = |required| required == Required::UnlessOptional && found.name_field.is_none();
        let required = self.given_or(found.required.as_ref(), Required::IfNamed, lacks_field, why)?;
        let why = "before: applied needs cardinality: exactlyOne; allowed without it is none";
        let default = if self.is_one() {
            Before::Applied
        } else {
            Before::None
        };
        let is_early = |before| before == Before::Applied && !self.is_one();
        let before_applied = self.given_or(found.before.as_ref(), default, is_early, why)? == Before::Applied;
        let reference = Reference {
            path: self.query(&found.path)?,
            name_field: found.name_field.clone(),
            required,
            before_applied,
            adopted: found.adopted.as_ref().is_some_and(|adopted| adopted.value),
            max_bytes: self.bytes("maxBytes", found.max_bytes.as_ref(), SOURCE_BYTES)?,
            line: found.kind.referenced.line(),
            resource,
        };
        match &found.adopted {
            Some(adopted) if adopted.value && !before_applied => self.refuse(
                adopted,
                "adopted: true needs before: applied; allowed without it is false",
            ),
            Some(adopted) if adopted.value && reference.is_core() => {
                let message = "adopted: true is not for ConfigMap and Secret, which several objects share; allowed is \
                    false, or another kind";
                self.refuse(adopted, message)
            }
            _ => Ok(reference),
        }
    }

    fn companion_resource(&self, found: &ReferenceFile) -> Result<ApiResource, LoadError> {
        let (group, version) = match &found.api_version {
            None => ("", "v1"),
            Some(given) if given.value == "v1" => ("", "v1"),
            Some(given) => match given.value.split_once('/') {
                Some((group, version)) if names::is_object_name(group) && names::is_object_name(version) => {
                    (group, version)
                }
                _ => {
                    let message = format!(
                        "apiVersion {:?} is unknown; allowed are v1 and <group>/<version>",
                        given.value
                    );
                    return self.refuse(given, message);
                }
            },
        };
        let own = GroupVersionKind::gvk(group, version, &found.kind.value);
        let core = core_plural(&ApiResource::from_gvk_with_plural(&own, ""));
        let plural = match (&found.plural, core) {
            (Some(plural), _) => self.object_name("plural", plural)?,
            (None, Some(plural)) => plural.to_owned(),
            (None, None) => {
                let message = format!(
                    "missing field \"plural\" of kind {:?}; allowed without it are ConfigMap and Secret of v1",
                    found.kind.value
                );
                return self.refuse(&found.kind, message);
            }
        };
        Ok(ApiResource::from_gvk_with_plural(&own, &plural))
    }

    pub(super) fn write_back(&self, section: WriteBackFile) -> Result<WriteBack, LoadError> {
        let Some((group, version)) = section.api_version.value.split_once('/') else {
            let message =
                "apiVersion must be <group>/<version>: kinds of the core group are not written back";
            return self.refuse(&section.api_version, message);
        };
        let gvk = GroupVersionKind::gvk(group, version, &section.kind.value);
        let plural = self.object_name("writeBack.plural", &section.plural)?;
        Ok(WriteBack {
            resource: ApiResource::from_gvk_with_plural(&gvk, &plural),
            owner_label: section.owner_label,
            city_label: section.city_label,
            linking_labels: section.linking_labels,
            scale_paths: section
                .scale_paths
                .iter()
                .map(|path| self.query(path))
                .collect::<Result<_, _>>()?,
        })
    }

    pub(super) fn deletion(&self, section: DeletionFile) -> Result<DeletionRules, LoadError> {
        let absent = FinishedWhen::MemberAbsent;
        let why = "finishedWhen: memberAbsent needs cardinality: exactlyOne; allowed without it is released";
        let is_refused = |when| when == absent && !self.is_one();
        let finished_when = self.given_or(
            section.finished_when.as_ref(),
            FinishedWhen::Released,
            is_refused,
            why,
        )?;
        let why = "byMember: ends needs finishedWhen: memberAbsent; allowed without it is restored";
        let is_refused = |by_member| by_member == ByMember::Ends && finished_when != absent;
        let by_member = self.given_or(section.by_member.as_ref(), ByMember::Restored, is_refused, why)?;
        let why = "abandon: true needs finishedWhen: memberAbsent; allowed without it is false";
        let is_refused = |abandon| abandon && finished_when != absent;
        let abandon = self.given_or(section.abandon.as_ref(), false, is_refused, why)?;
        Ok(DeletionRules {
            finished_when,
            by_member,
            guards: section
                .guards
                .into_iter()
                .map(|guard| self.guard(guard))
                .collect::<Result<_, _>>()?,
            abandon,
        })
    }

    fn guard(&self, guard: GuardFile) -> Result<Guard, LoadError> {
        let equals = &guard.equals.value;
        if equals.is_object() || equals.is_array() || equals.is_null() {
            let message = "equals is compared with one value; allowed are a text, a number, true and false";
            return self.refuse(&guard.equals, message);
        }
        if guard.message.value.trim().is_empty() {
            let message = "message is empty; say what holds the deletion and how it is let go";
            return self.refuse(&guard.message, message);
        }
        Ok(Guard {
            path: self.query(&guard.path)?,
            equals: guard.equals.value,
            message: guard.message.value,
        })
    }

    pub(super) fn returns(
        &self,
        section: Vec<ReturnFile>,
        resource: &ApiResource,
    ) -> Result<Vec<Return>, LoadError> {
        let name = format!("{}.{}", resource.plural, resource.group);
        if let Some(first) = section.first()
            && !names::is_label_value(&name)
        {
            let message = format!(
                "returns mark each Secret with a label that names the kind, and {name:?} has {} characters; allowed are 63",
                name.len()
            );
            return self.refuse(&first.kind, message);
        }
        section.into_iter().map(|found| self.one_return(found)).collect()
    }

    fn one_return(&self, found: ReturnFile) -> Result<Return, LoadError> {
        if !self.is_one() {
            let message = "returns need cardinality: exactlyOne, since a Secret goes back from the one member at which its \
                object lives; allowed without it are none";
            return self.refuse(&found.kind, message);
        }
        let name = match (&found.path, found.name) {
            (Some(path), None) => ReturnName::Path(self.query(path)?),
            (None, Some(name)) => {
                let is_name = names::is_object_name(&name.value.replace("{name}", "x"));
                if !name.value.contains("{name}") || !is_name {
                    let message = format!(
                        "name {:?} is no object name with {{name}} in it, which stands for the object's, e.g. {{name}}-app",
                        name.value
                    );
                    return self.refuse(&name, message);
                }
                ReturnName::Pattern(name.value)
            }
            (given, _) => {
                let both = if given.is_some() { "both" } else { "none" };
                let message =
                    format!("the Secret's name comes from one place, {both} given; allowed is path or name");
                return self.refuse(&found.kind, message);
            }
        };
        if found.allow.is_empty() {
            let message =
                "allow is empty, so nothing would go back; name patterns of Secrets, e.g. \"*-app\"";
            return self.refuse(&found.kind, message);
        }
        let patterns = found.allow.iter().map(|text| {
            NamePattern::parse(&text.value).map_or_else(
                || {
                    let message = format!(
                        "pattern {:?} fits almost any name; allowed are patterns with 4 or more characters beside '*'",
                        text.value
                    );
                    self.refuse(text, message)
                },
                Ok,
            )
        });
        Ok(Return {
            allow: patterns.collect::<Result<_, _>>()?,
            max_bytes: self.bytes("maxBytes", found.max_bytes.as_ref(), RETURN_BYTES)?,
            name,
        })
    }

    pub(super) fn selector(&self, section: SelectorFile) -> Result<Selector, LoadError> {
        let mut selector = Selector::default();
        selector.extend(
            section
                .match_labels
                .into_iter()
                .map(|(key, value)| Expression::Equal(key, value)),
        );
        for found in section.match_expressions {
            let (operator, values) = (found.operator.value, found.values);
            if matches!(operator, Operator::In | Operator::NotIn) == values.is_empty() {
                let message = "In and NotIn need values, Exists and DoesNotExist have none";
                return self.refuse(&found.operator, message);
            }
            selector.extend([match operator {
                Operator::In => Expression::In(found.key, values),
                Operator::NotIn => Expression::NotIn(found.key, values),
                Operator::Exists => Expression::Exists(found.key),
                Operator::DoesNotExist => Expression::DoesNotExist(found.key),
            }]);
        }
        Ok(selector)
    }
}

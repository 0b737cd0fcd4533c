//! The messages that `kubectl create` can send, with the fields that it sets: field number, name in JSON, type. The
//! numbers come from the `generated.proto` files in <https://github.com/kubernetes/api>.
//!
//! A field that is not listed may only be empty; otherwise the body is refused. The numbers never change, so the tables
//! are valid for every version of Kubernetes.

/// The conversion of a message's field to JSON. An empty text, the number zero and the flag false mean that the field
/// is absent, because the encoding does not distinguish the two.
#[derive(Debug, Clone, Copy)]
pub(super) enum Field {
    Text,
    Texts,
    Number,
    /// A number that may be absent. Zero is kept.
    OptionalNumber,
    Flag,
    /// A flag that may be absent. False is kept.
    OptionalFlag,
    TextMap,
    BytesMap,
    QuantityMap,
    NumberOrText,
    One(Fields),
    Many(Fields),
}

/// The fields of a message.
pub(super) type Fields = &'static [(u64, &'static str, Field)];

use Field::{
    BytesMap, Flag, Many, Number, NumberOrText, One, OptionalFlag, OptionalNumber, QuantityMap, Text, TextMap, Texts,
};

/// The message of a kind.
pub(super) fn of_kind(kind: &str) -> Option<Fields> {
    Some(match kind {
        "ClusterRole" | "Role" => ROLE,
        "ClusterRoleBinding" | "RoleBinding" => ROLE_BINDING,
        "ConfigMap" => CONFIG_MAP,
        "CronJob" => CRON_JOB,
        "Deployment" => DEPLOYMENT,
        "Eviction" => EVICTION,
        "Job" => JOB,
        "Namespace" | "ServiceAccount" => METADATA_ONLY,
        "PodDisruptionBudget" => BUDGET,
        "PriorityClass" => PRIORITY_CLASS,
        "ResourceQuota" => QUOTA,
        "Secret" => SECRET,
        "Service" => SERVICE,
        _ => return None,
    })
}

const OWNER_REFERENCE: Fields = &[
    (1, "kind", Text),
    (3, "name", Text),
    (4, "uid", Text),
    (5, "apiVersion", Text),
    (6, "controller", OptionalFlag),
    (7, "blockOwnerDeletion", OptionalFlag),
];
const OBJECT_META: Fields = &[
    (1, "name", Text),
    (2, "generateName", Text),
    (3, "namespace", Text),
    (11, "labels", TextMap),
    (12, "annotations", TextMap),
    (13, "ownerReferences", Many(OWNER_REFERENCE)),
    (14, "finalizers", Texts),
];
const REQUIREMENT: Fields = &[(1, "key", Text), (2, "operator", Text), (3, "values", Texts)];
const LABEL_SELECTOR: Fields = &[(1, "matchLabels", TextMap), (2, "matchExpressions", Many(REQUIREMENT))];

/// The first field of every object.
const METADATA: (u64, &str, Field) = (1, "metadata", One(OBJECT_META));

/// An object that consists of its metadata and a spec.
const fn with_spec(spec: Fields) -> [(u64, &'static str, Field); 2] {
    [METADATA, (2, "spec", One(spec))]
}

const METADATA_ONLY: Fields = &[METADATA];
const CONFIG_MAP: Fields =
    &[METADATA, (2, "data", TextMap), (3, "binaryData", BytesMap), (4, "immutable", OptionalFlag)];
const SECRET: Fields =
    &[METADATA, (2, "data", BytesMap), (3, "type", Text), (4, "stringData", TextMap), (5, "immutable", OptionalFlag)];
const PRIORITY_CLASS: Fields = &[
    METADATA,
    (2, "value", OptionalNumber),
    (3, "globalDefault", Flag),
    (4, "description", Text),
    (5, "preemptionPolicy", Text),
];
const QUOTA_SPEC: Fields = &[(1, "hard", QuantityMap), (2, "scopes", Texts)];
const QUOTA: Fields = &with_spec(QUOTA_SPEC);

const BUDGET_SPEC: Fields = &[
    (1, "minAvailable", NumberOrText),
    (2, "selector", One(LABEL_SELECTOR)),
    (3, "maxUnavailable", NumberOrText),
    (4, "unhealthyPodEvictionPolicy", Text),
];
const BUDGET: Fields = &with_spec(BUDGET_SPEC);
const PRECONDITIONS: Fields = &[(1, "uid", Text), (2, "resourceVersion", Text)];
const DELETE_OPTIONS: Fields = &[
    (1, "gracePeriodSeconds", OptionalNumber),
    (2, "preconditions", One(PRECONDITIONS)),
    (3, "orphanDependents", OptionalFlag),
    (4, "propagationPolicy", Text),
    (5, "dryRun", Texts),
];
const EVICTION: Fields = &[METADATA, (2, "deleteOptions", One(DELETE_OPTIONS))];

const POLICY_RULE: Fields = &[
    (1, "verbs", Texts),
    (2, "apiGroups", Texts),
    (3, "resources", Texts),
    (4, "resourceNames", Texts),
    (5, "nonResourceURLs", Texts),
];
const AGGREGATION: Fields = &[(1, "clusterRoleSelectors", Many(LABEL_SELECTOR))];
const ROLE: Fields = &[METADATA, (2, "rules", Many(POLICY_RULE)), (3, "aggregationRule", One(AGGREGATION))];
const SUBJECT: Fields = &[(1, "kind", Text), (2, "apiGroup", Text), (3, "name", Text), (4, "namespace", Text)];
const ROLE_REFERENCE: Fields = &[(1, "apiGroup", Text), (2, "kind", Text), (3, "name", Text)];
const ROLE_BINDING: Fields = &[METADATA, (2, "subjects", Many(SUBJECT)), (3, "roleRef", One(ROLE_REFERENCE))];

const SERVICE_PORT: Fields = &[
    (1, "name", Text),
    (2, "protocol", Text),
    (3, "port", Number),
    (4, "targetPort", NumberOrText),
    (5, "nodePort", Number),
    (6, "appProtocol", Text),
];
const SERVICE_SPEC: Fields = &[
    (1, "ports", Many(SERVICE_PORT)),
    (2, "selector", TextMap),
    (3, "clusterIP", Text),
    (4, "type", Text),
    (5, "externalIPs", Texts),
    (7, "sessionAffinity", Text),
    (8, "loadBalancerIP", Text),
    (10, "externalName", Text),
    (18, "clusterIPs", Texts),
];
const SERVICE: Fields = &with_spec(SERVICE_SPEC);

const CONTAINER_PORT: Fields = &[
    (1, "name", Text),
    (2, "hostPort", Number),
    (3, "containerPort", Number),
    (4, "protocol", Text),
    (5, "hostIP", Text),
];
const VARIABLE: Fields = &[(1, "name", Text), (2, "value", Text)];
const RESOURCES: Fields = &[(1, "limits", QuantityMap), (2, "requests", QuantityMap)];
const CONTAINER: Fields = &[
    (1, "name", Text),
    (2, "image", Text),
    (3, "command", Texts),
    (4, "args", Texts),
    (5, "workingDir", Text),
    (6, "ports", Many(CONTAINER_PORT)),
    (7, "env", Many(VARIABLE)),
    (8, "resources", One(RESOURCES)),
    (13, "terminationMessagePath", Text),
    (14, "imagePullPolicy", Text),
    (20, "terminationMessagePolicy", Text),
];
const POD_SPEC: Fields = &[
    (2, "containers", Many(CONTAINER)),
    (3, "restartPolicy", Text),
    (4, "terminationGracePeriodSeconds", OptionalNumber),
    (5, "activeDeadlineSeconds", OptionalNumber),
    (6, "dnsPolicy", Text),
    (7, "nodeSelector", TextMap),
    (8, "serviceAccountName", Text),
    (9, "serviceAccount", Text),
    (10, "nodeName", Text),
    (19, "schedulerName", Text),
    (20, "initContainers", Many(CONTAINER)),
    (24, "priorityClassName", Text),
];
const POD_TEMPLATE: Fields = &with_spec(POD_SPEC);
const ROLLING_UPDATE: Fields = &[(1, "maxUnavailable", NumberOrText), (2, "maxSurge", NumberOrText)];
const STRATEGY: Fields = &[(1, "type", Text), (2, "rollingUpdate", One(ROLLING_UPDATE))];
const DEPLOYMENT_SPEC: Fields = &[
    (1, "replicas", OptionalNumber),
    (2, "selector", One(LABEL_SELECTOR)),
    (3, "template", One(POD_TEMPLATE)),
    (4, "strategy", One(STRATEGY)),
    (5, "minReadySeconds", Number),
    (6, "revisionHistoryLimit", OptionalNumber),
    (7, "paused", Flag),
    (9, "progressDeadlineSeconds", OptionalNumber),
];
const DEPLOYMENT: Fields = &with_spec(DEPLOYMENT_SPEC);
const JOB_SPEC: Fields = &[
    (1, "parallelism", OptionalNumber),
    (2, "completions", OptionalNumber),
    (3, "activeDeadlineSeconds", OptionalNumber),
    (4, "selector", One(LABEL_SELECTOR)),
    (5, "manualSelector", OptionalFlag),
    (6, "template", One(POD_TEMPLATE)),
    (7, "backoffLimit", OptionalNumber),
    (8, "ttlSecondsAfterFinished", OptionalNumber),
    (9, "completionMode", Text),
    (10, "suspend", OptionalFlag),
    (14, "podReplacementPolicy", Text),
];
const JOB: Fields = &with_spec(JOB_SPEC);
const JOB_TEMPLATE: Fields = JOB;
const CRON_JOB_SPEC: Fields = &[
    (1, "schedule", Text),
    (2, "startingDeadlineSeconds", OptionalNumber),
    (3, "concurrencyPolicy", Text),
    (4, "suspend", OptionalFlag),
    (5, "jobTemplate", One(JOB_TEMPLATE)),
    (6, "successfulJobsHistoryLimit", OptionalNumber),
    (7, "failedJobsHistoryLimit", OptionalNumber),
    (8, "timeZone", Text),
];
const CRON_JOB: Fields = &with_spec(CRON_JOB_SPEC);

//! Every CEL rule with a resource that keeps it and one that breaks it.

-- Run once, when the volume is new, by the superuser: a role that is none and owns both databases, Dagster's and ours,
-- and the extension that it may not make itself.
\getenv password GRANARY_PASSWORD
CREATE ROLE granary LOGIN PASSWORD :'password';
CREATE DATABASE dagster OWNER granary;
CREATE DATABASE granary OWNER granary;
\connect granary
CREATE EXTENSION vector;

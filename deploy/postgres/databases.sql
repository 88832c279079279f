-- Run once, when the volume is new: Dagster's own database, and the vectors of ours.
CREATE DATABASE dagster;
CREATE EXTENSION IF NOT EXISTS vector;

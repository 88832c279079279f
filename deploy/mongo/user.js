// Run once, when the volume is new: a user who may read and write one database and do nothing else.
db.getSiblingDB("admin").createUser({
  user: "granary",
  pwd: process.env.GRANARY_PASSWORD,
  roles: [{ role: "readWrite", db: "granary" }],
});

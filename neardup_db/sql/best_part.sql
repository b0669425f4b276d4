-- The part of what nearer.sql found.
(SELECT x.part FROM {index}_part AS x WHERE x.id = (b.nearer & 281474976710655))

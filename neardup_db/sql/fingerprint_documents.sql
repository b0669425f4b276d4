-- The documents of a range of fingerprints in insertion order, and whether they are visible.
SELECT id, fingerprint_id, {visible} FROM {codes}
WHERE fingerprint_id BETWEEN :first_id AND :last_id ORDER BY id

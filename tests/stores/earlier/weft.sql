BEGIN TRANSACTION;
CREATE TABLE app_state (
            app_name TEXT NOT NULL,
            key TEXT NOT NULL,
            value TEXT NOT NULL, checksum INTEGER,
            PRIMARY KEY (app_name, key)
        ) WITHOUT ROWID;
CREATE TABLE events (
            place INTEGER PRIMARY KEY,
            timestamp REAL NOT NULL,
            event TEXT NOT NULL
        , checksum INTEGER);
INSERT INTO "events" VALUES(4294967296,1.79487019831458950043e+09,'{"author":"user","content":{"parts":[{"text":"Oslo"}],"role":"user"},"invocationId":"8d4b7151d92f3a21bf9ccb578435982a","id":"16b4b61f24998e4c60df2d3c4b6815ac","timestamp":1794870198.3145895,"actions":{"stateDelta":{"city":"Oslo"}}}',2791903268);
INSERT INTO "events" VALUES(4294967297,1.79487019833318328857e+09,'{"author":"shop","content":{"parts":[{"functionCall":{"name":"note","args":{"text":"first"},"id":"adk-f365243cf7c9129157015b78602d87d6"}}],"role":"model"},"invocationId":"8d4b7151d92f3a21bf9ccb578435982a","id":"77399cc75d3f01ed4af24d7fa93c5d90","timestamp":1794870198.3331833}',2370150426);
INSERT INTO "events" VALUES(4294967298,1.79487019835456156731e+09,'{"author":"shop","content":{"parts":[{"functionResponse":{"name":"note","response":{"version":0},"id":"adk-f365243cf7c9129157015b78602d87d6"}}],"role":"user"},"invocationId":"8d4b7151d92f3a21bf9ccb578435982a","id":"4107973f1678d953ababd54d75b00503","timestamp":1794870198.3545616,"actions":{"stateDelta":{"user:notes":"first"},"artifactDelta":{"notes.txt":0}}}',567797497);
INSERT INTO "events" VALUES(4294967299,1.79487019836539196968e+09,'{"author":"shop","content":{"parts":[{"text":"noted"}],"role":"model"},"invocationId":"8d4b7151d92f3a21bf9ccb578435982a","id":"0994de6a177ed3ac1ad5170a43af2227","timestamp":1794870198.365392}',2468643787);
INSERT INTO "events" VALUES(4294967300,1.79487019837180399895e+09,'{"author":"user","content":{"parts":[{"text":"Rome"}],"role":"user"},"invocationId":"1500c61ff192de980ea159ec9c0e9660","id":"c3e1092124b1620d11216ed8fc990144","timestamp":1794870198.371804,"actions":{"stateDelta":{"city":"Rome"}}}',1515589362);
INSERT INTO "events" VALUES(4294967301,1.79487019838229823112e+09,'{"author":"shop","content":{"parts":[{"functionCall":{"name":"note","args":{"text":"second"},"id":"adk-b5e024ba528fa8a59957c821f29470da"}}],"role":"model"},"invocationId":"1500c61ff192de980ea159ec9c0e9660","id":"e658d5c85938da81a6550ab7fdaec783","timestamp":1794870198.3822982}',2897952221);
INSERT INTO "events" VALUES(4294967302,1.79487019839004302025e+09,'{"author":"shop","content":{"parts":[{"functionResponse":{"name":"note","response":{"version":1},"id":"adk-b5e024ba528fa8a59957c821f29470da"}}],"role":"user"},"invocationId":"1500c61ff192de980ea159ec9c0e9660","id":"74a9afd955bc9a585ee1a58009dd290e","timestamp":1794870198.390043,"actions":{"stateDelta":{"user:notes":"second"},"artifactDelta":{"notes.txt":1}}}',4193711561);
INSERT INTO "events" VALUES(4294967303,1.79487019839332771301e+09,'{"author":"shop","content":{"parts":[{"text":"noted again"}],"role":"model"},"invocationId":"1500c61ff192de980ea159ec9c0e9660","id":"fb2ded6577b4c831645c891880fee146","timestamp":1794870198.3933277}',2919223359);
INSERT INTO "events" VALUES(8589934592,1.7948701985199868679e+09,'{"author":"user","content":{"parts":[{"text":"Oslo"}],"role":"user"},"invocationId":"1f182a4c2e8d964abfe46290c143e876","id":"6b9efea249d643f13e578ed1cdf92c21","timestamp":1794870198.5199869,"actions":{"stateDelta":{"city":"Oslo"}}}',3838033791);
INSERT INTO "events" VALUES(8589934593,1.79487019852588486671e+09,'{"author":"shop","content":{"parts":[{"functionCall":{"name":"pay","args":{"amount":5},"id":"adk-d44be28e11b12ddb9b1e56aec4257ffb"}}],"role":"model"},"invocationId":"1f182a4c2e8d964abfe46290c143e876","id":"f1e06f204b27cf018ee89ea97d5fa0cc","timestamp":1794870198.5258849,"longRunningToolIds":["adk-d44be28e11b12ddb9b1e56aec4257ffb"]}',2603196826);
INSERT INTO "events" VALUES(8589934594,1.79487019852695703506e+09,'{"author":"shop","invocationId":"1f182a4c2e8d964abfe46290c143e876","id":"10e31216cc71aa816352e76e74ada67e","timestamp":1794870198.526957,"actions":{},"customMetadata":{"weft":{"pending":["adk-d44be28e11b12ddb9b1e56aec4257ffb"]}}}',2896738055);
INSERT INTO "events" VALUES(8589934595,1.79487019852698779106e+09,'{"author":"shop","content":{"parts":[{"functionCall":{"name":"adk_request_confirmation","args":{"originalFunctionCall":{"name":"pay","args":{"amount":5},"id":"adk-d44be28e11b12ddb9b1e56aec4257ffb"},"toolConfirmation":{"hint":"May pay be called with {\"amount\":5}?","confirmed":false,"payload":{"fingerprint":"f7358f54874b61ff09233e3fe8ce40db"}}},"id":"ask-adk-d44be28e11b12ddb9b1e56aec4257ffb"}}],"role":"model"},"invocationId":"1f182a4c2e8d964abfe46290c143e876","id":"4ee94606627424f6c8adfd608e448588","timestamp":1794870198.5269878,"longRunningToolIds":["ask-adk-d44be28e11b12ddb9b1e56aec4257ffb"],"actions":{}}',253819405);
INSERT INTO "events" VALUES(12884901888,1.79487019853779745102e+09,'{"author":"user","content":{"parts":[{"text":"Oslo"}],"role":"user"},"invocationId":"ec67e503aebaa8fba043c2733dab1a98","id":"416a870ff58de852ee4debac53843fd7","timestamp":1794870198.5377975,"actions":{"stateDelta":{"city":"Oslo"}}}',2720823104);
INSERT INTO "events" VALUES(12884901889,1.79487019855168390274e+09,'{"author":"shop","content":{"parts":[{"functionCall":{"name":"ask","args":{"question":"may I?"},"id":"adk-bcf2d7630f2f5f6cad7d5d2229300583"}}],"role":"model"},"invocationId":"ec67e503aebaa8fba043c2733dab1a98","id":"b6f05deb05f06a44e6202212c5f0f294","timestamp":1794870198.551684,"longRunningToolIds":["adk-bcf2d7630f2f5f6cad7d5d2229300583"]}',2405377168);
INSERT INTO "events" VALUES(12884901890,1.79487019856056118011e+09,'{"author":"shop","content":{"parts":[{"functionResponse":{"name":"ask","response":{"status":"asked"},"id":"adk-bcf2d7630f2f5f6cad7d5d2229300583"}}],"role":"user"},"invocationId":"ec67e503aebaa8fba043c2733dab1a98","id":"fc5515b91d92428791b4e65dfb1649d1","timestamp":1794870198.5605612,"actions":{},"customMetadata":{"weft":{"pending":["adk-bcf2d7630f2f5f6cad7d5d2229300583"]}}}',3107003346);
INSERT INTO "events" VALUES(17179869184,1.79487019860007929802e+09,'{"author":"user","content":{"parts":[{"text":"Oslo"}],"role":"user"},"invocationId":"3156d6947f02603e68927b6de04aec1c","id":"1d92949d6cf63dc1c57335f901b0d91d","timestamp":1794870198.6000793,"actions":{"stateDelta":{"city":"Oslo"}}}',792457616);
INSERT INTO "events" VALUES(17179869185,1.79487019872595953941e+09,'{"author":"shop","content":{"parts":[{"text":"one"}],"role":"model"},"invocationId":"3156d6947f02603e68927b6de04aec1c","id":"80ec7131f40b1c62802c7c9c6d321461","timestamp":1794870198.7259595}',3563721518);
INSERT INTO "events" VALUES(17179869186,1794870198.8028,'{"author":"user","content":{"parts":[{"text":"Rome"}],"role":"user"},"invocationId":"61f743769205d5a9c9977b888392c000","id":"4979df7360a552aaabd621a8a4c9dad4","timestamp":1794870198.8028,"actions":{"stateDelta":{"city":"Rome"}}}',1032395764);
INSERT INTO "events" VALUES(17179869187,1.7948701988062338829e+09,'{"author":"shop","content":{"parts":[{"text":"two"}],"role":"model"},"invocationId":"61f743769205d5a9c9977b888392c000","id":"a00df70d22c2b987d5ff4edf11094acb","timestamp":1794870198.806234}',2336781844);
INSERT INTO "events" VALUES(17179869188,1.79487019881512284279e+09,'{"author":"user","content":{"parts":[{"text":"Bergen"}],"role":"user"},"invocationId":"48c7cc627760772c9a681235251a918e","id":"ba2399c6e303048fb5693e79a565362b","timestamp":1794870198.8151228,"actions":{"stateDelta":{"city":"Bergen"}}}',3993586465);
INSERT INTO "events" VALUES(17179869189,1.79487019881969165802e+09,'{"author":"shop","content":{"parts":[{"text":"three"}],"role":"model"},"invocationId":"48c7cc627760772c9a681235251a918e","id":"1a93b75ebc3c61f7a1d642305d9d558a","timestamp":1794870198.8196917}',3314589611);
INSERT INTO "events" VALUES(17179869190,1.79487019886252903938e+09,'{"author":"user","invocationId":"5a183793d5d6a9f27464885c9f2dd189","id":"a931bb3534f8f9d43eb9a16c67d4837c","timestamp":1794870198.862529,"actions":{"stateDelta":{"city":"Oslo"},"rewindBeforeInvocationId":"61f743769205d5a9c9977b888392c000"}}',4270740679);
INSERT INTO "events" VALUES(21474836480,1.79487019992650556564e+09,'{"author":"user","content":{"parts":[{"text":"Oslo"}],"role":"user"},"invocationId":"7923ee4caebd0c4346b7012952fcb821","id":"ff2ba4700f0e036f8460badfd1e1b50d","timestamp":1794870199.9265056,"actions":{"stateDelta":{"city":"Oslo"}}}',1754096599);
INSERT INTO "events" VALUES(21474836481,1.79487019994199919701e+09,'{"author":"shop","content":{"parts":[{"functionCall":{"name":"send","args":{"item":"kettle"},"id":"adk-39936008b149e38e0d37d1fd5a783267"}}],"role":"model"},"invocationId":"7923ee4caebd0c4346b7012952fcb821","id":"1aa57a72de69bc1831109f93cce6a2dc","timestamp":1794870199.9419992}',1720573824);
INSERT INTO "events" VALUES(21474836482,1.7948701999532430172e+09,'{"author":"shop","invocationId":"7923ee4caebd0c4346b7012952fcb821","id":"25e0c0a623c5e9e101b43ce064bbd766","timestamp":1794870199.953243,"actions":{},"customMetadata":{"weft":{"started":["adk-39936008b149e38e0d37d1fd5a783267"]}}}',2327641704);
CREATE TABLE interrupts (
            app_name TEXT NOT NULL,
            user_id TEXT NOT NULL,
            id TEXT NOT NULL,
            asked REAL NOT NULL,
            PRIMARY KEY (app_name, user_id, id)
        ) WITHOUT ROWID;
CREATE TABLE sessions (
            number INTEGER PRIMARY KEY AUTOINCREMENT,
            app_name TEXT NOT NULL,
            user_id TEXT NOT NULL,
            id TEXT NOT NULL,
            created REAL NOT NULL,
            state TEXT NOT NULL, checksum INTEGER,
            UNIQUE (app_name, user_id, id)
        );
INSERT INTO "sessions" VALUES(1,'shop','user','talk',1.79487019830793762207e+09,'{}',1784743588);
INSERT INTO "sessions" VALUES(2,'shop','user','pay',1.79487019849309158325e+09,'{}',1860440460);
INSERT INTO "sessions" VALUES(3,'shop','user','ask',1.79487019853600740433e+09,'{}',3917923164);
INSERT INTO "sessions" VALUES(4,'shop','user','back',1.79487019859229207039e+09,'{}',3070918518);
INSERT INTO "sessions" VALUES(5,'shop','user','cut',1.79487019992316102982e+09,'{}',1963312985);
CREATE TABLE user_state (
            app_name TEXT NOT NULL,
            user_id TEXT NOT NULL,
            key TEXT NOT NULL,
            value TEXT NOT NULL, checksum INTEGER,
            PRIMARY KEY (app_name, user_id, key)
        ) WITHOUT ROWID;
INSERT INTO "user_state" VALUES('shop','user','user:notes','"second"',3124745805);
CREATE INDEX deltas ON events (place) WHERE event LIKE '%"stateDelta"%';
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('sessions',5);
COMMIT;
PRAGMA application_id = 1464157780;
PRAGMA user_version = 4;

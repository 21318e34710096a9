"""Given names that people of many languages bear, in lower case; written by hand, not complete."""

from weft.detect.found import table

COMMON = table(
    """
aad aada aaliyah aanya aarav aarne aaron aarti abbas abby abdul abdullah abdulrahman abel abena
abhishek abigail abraham achim ada adalbert adalyn adam adao addison adebayo adeel adela
adelaide adele adelina adem adil aditi aditya adnan adolf adriaan adrian adriana adrianna
adriano adrien aednan afonso afra agata agathe agnes agneta agnete agnieszka agostino agoston
agust agustin ahmad ahmed ahti aida aidan aiden aigars aija aiko aileen aimee aimo ainars aine
ainhoa aino aisha aisling aitor aivars ajay akash akiko akira akos akosua akshay aladar alain
alan alana alba albena albert alberte alberto albin aldo aleida aleix alejandra alejandro alejo
aleks aleksandar aleksander aleksandr aleksandra aleksandras aleksas aleksi aleksy alem alen
alena alessandra alessandro alessia alessio alex alexa alexander alexandra alexandre alexandrina
alexei alexey alexia alexis alfie alfonso alfred alfredo algirdas ali alice alicia alina alise
alisha alison alistair aliya aljaz aljosa allan allison alma almudena alois alojz alojzij alona
alper alvaro alvin alwin alycia ama amadeo amaia amalia amalie amanda amara amari amaya amber
ambrose amelia amelie amerigo amina amir amira amit amna amol amos amparo amra amrita amy ana
anabel anahi anais anamaria anand ananya anastasia anastazija anastazja anatol anatoly anca
andela anders andor andrada andraz andrea andreas andrei andreina andrej andres andrew andrey
andris andrius andrzej andy aneta anett anette anfisa angel angela angelica angelika angelina
angelique angelo angelos angus aniela aniket anil anis anish anita anja anjali anka anke ankita
ann anna annabel annabelle annalisa annamaria anne annegret anneke anneli annelies anneliese
annemarie annemie annemiek annette annick annie annija annika anouk anselm ansis antal antanas
ante antero anthea anthony antje antoine anton antonela antonella antoni antonia antonietta
antonija antonin antonina antonio antonios antreas antti anu anupama anusha anya aoi aoife
aparna apolline apolonia april araceli archibald archie arda arend ari ariadna ariana arianna
arie ariel arif aris aristoteles arjun arkady arlene arlette armando armas armel armin arnaldo
arnaud arnav arne arni arno arnold arnoud aron art artem arthur arto arturo arun arvid arvo arya
asa asen asger ashish ashley ashok ashwin asier asif aslam aslan aslaug aslihan asma astrid asya
atanas athanasios athena attila aubrey audrey audrone audun august auguste augustin augusto
aurel aurelia aurelie aurelien aurelio aurora ausra ava avi axel aya ayaan ayaka ayanda aydin
ayesha ayla aylin ayman ayse ayumi aziz azra baiba balazs balint barbara barbora barnabas barry
bart bartek bartlomiej bartosz bas basak basil basile bastiaan bastian beat beata beate beatrice
beatrix beatriz becky begona bela belen belinda belle ben bence benedek benedetta benedict
benedikt benita benito benjamim benjamin benoit bent bente berit berkay bernadett bernadette
bernard bernardo bernd bernhard bert berta bertha bertil bertram beryl beth bethany bettina
betty bianca bianka bilal bill birgit birgitta birgitte birna birte biserka bjarne bjarni bjorg
bjork bjorn blanca blanka blaz blazej blerim bo bob bogdan bogdana boglarka bogumil boguslaw
bohdan bohumil bohuslav bojan bojana boleslaw bongani bonifacy borbala boris borislav borna
borut borys botond boyan bozena bozidar brad bradley bram brandon branimir branislav branka
branko brenda brendan brent bret brett brian briana bridget brigita brigitta brigitte brita
britt britta brittany brona bronislaw brooke bruce bruna brunhilde bruno bryan bryce bryndis
brynjar burak burcu caio caitlin caitlyn caleb callum calum calvin camila camilla camille
candela candice carina carl carla carlo carlos carlota carly carme carmel carmela carmen carmine
carol carolina caroline carolyn carsten casey casimir caspar cassandra catalin catalina catarina
caterina cathal catharina catherine cathrine cathy cecilia cecilie cedric cees celal celeste
celestino celia celina celine cemal cesar cesare chad chandra chantal charlene charles charlie
charline charlotte chase chelsea chiara chidi chie chinedu chioma chloe chris christa christel
christiaan christian christiane christina christine christoffer christoph christophe christopher
christos chuck ciara ciaran cillian cindy ciprian claes claire clara clarissa claudia claudine
claudio claus clelia clemence clemens clement cleo clifford clint clive clovis codrut coen
colette colin colleen colm concetta conchita connie connor conor conrad constanca constance
constantin constanza consuelo cora coralie cordula corentin corina corinna corinne cormac
cornelia cornelis cornelius corrado cosima cosimo cosmin costel courtney craig cristian
cristiana cristiano cristina cristobal crystal csaba csilla curtis cynthia cyril cyrille cyrus
czeslaw daan dagfinn dagmar dagny daiki daina dainis daisuke daiva dale dalia dalibor dalila
dallas damian damien damir damjan dan dana danail danica daniel daniela daniele danielle danijel
danijela danilo danny dante danuta danute daphne daria darija darina dario darius dariusz dariya
darja darko darlene darren darryl dave david davide davor dawid dawn dean deanna debbie debora
deborah debra declan deepa deepak deirdre dejan delia delphine demet demetrio denes denis denisa
denise deniz dennis derek dermot desiree desislava desmond detlef devin devon dezso dhruv diana
diane diarmuid didier diego dieter diether dietmar dietrich dilan dilara dilip dimitra dimitri
dimitrije dimitrios dimitris dina dinesh dinka dino dirk ditte divya djordje dmitri dmitry
dobrica dolf dolores dolors domagoj domen domenica domenico dominic dominik dominika dominique
don donal donald donata donatella donato donna donovan dora doreen dorin dorina doris dorota
dorothea dorothee dorothy dorte doug douglas dovile draga dragan dragana dragica drago dragos
dragutin drahomira drazen drew duarte dubravka duje duncan dunja dusan dusanka dusko dustin
duygu dwayne dylan eamon ebba ebbe eberhard ebru ece eckart eckhard edda eddie edgar edgaras
edina edita edith edmund edna edoardo edu eduard eduarda eduardo edvard edvin edward edwin edyta
eelco eero eetu eevi efe efim efstathios egidijus egil egle egon egor eija eila eileen eilidh
eimear einar eino eira eirik eirin eirini eitan eivind ekaterina ela elaine eldbjorg eleanor
eleftheria elemer elena eleni eleonora eleonore elfriede eli elia eliana elias elif elijah elin
elina eline elio eliot elisa elisabet elisabeta elisabeth elisabetta elise eliska eliza
elizabeta elizabeth elizaveta elke ella ellen ellie elliot elmar elmer elodie eloise elsa
elsbeth else elsie elske elvir elvira elzbieta ema emanuel emanuela emeka emel emeric emese
emiel emil emile emilia emiliano emilie emilija emilio emily emin emir emma emmanuel emmanuelle
emmi emmie emre ene eneko engin eniko enrica enrico enrique ensio enver enzo eoin erdem erhan
eric erica erich erick erik erika erin erkan erki erkki erla erlend erna ernest ernestas ernesto
ernst erol ertugrul ervin erwan erwin erzsebet esa esben esin esko esma esmee espen esteban
estela estelle ester estera esther eszter ethan etienne eugen eugene eugenia eugenio eugeniusz
eulalia eunice eusebio eustachy eva evan evandro evangelia evangelos eve eveli evelien evelin
evelina eveline evelyn everett evert evgeni evgeny evita evzen ewa ewan ewelina eyjolfur eylem
eytan ezgi ezio fabian fabien fabio fabiola fabrice fabricio fabrizio faddey fadime faina faisal
faith fang fanni fanny farah farai farid fatih fatima fatma federica federico fedor felicia
felicity feliks felipe felix femke ferdi ferdinand ferenc ferencz fergus fermin fernanda
fernando ferran fidel fiete filip filipa filipe filipp filippa filippo filiz finn fiona fiorella
fiorenzo firat flavia flavio flemming fleur floor flor flora florence florian floriane florica
florin florina floris floyd folke foteini fotini franca frances francesca francesco francine
francis francisca francisco franciska franciszek franco francois francoise frane franja franjo
frank franklin frans frantisek franz franziska fraser fraukje freddie freddy frederic frederica
frederick frederico frederik frederikke fredric fredrik freek freja freya frida frieda friedhelm
friedrich fritz frode froukje fryderyk fulvio fumiko funmi furkan fyodor gabor gabriel gabriela
gabriele gabriella gabrielle gael gaetano gaia galina gareth gary gaspar gaspard gaston gaurav
gavin geert geertje geir gema gemma gene genevieve gennady genoveva genowefa geoffrey georg
george georges georgeta georgi georgia georgiana georgina georgios georgy geraint gerald
geraldine gerard gerardo gerben gerda gergely gergo gerhard gerlinde germaine gernot gero gerrit
gert gertrud gertrude gheorghe ghislaine giacomo giada gian giancarlo gianluca gianmarco gianni
giedrius gijs gil gilbert gilberto gilda gilles gina ginevra gino gintaras gioacchino giorgia
giorgio giorgos giovanna giovanni gisela gisele giselle gisli gitta gitte giulia giuliana
giuliano giulio giuseppe giuseppina giustino gizella gizem gjalt gladys glen glenda glenn gloria
gonca gonzalo goran gordana gordon gosta gottfried graca grace graciela gracja graeme graham
grainne grant grazia grazyna greg gregor gregorio gregory greta gretchen grete grethe grigore
grigory gro grzegorz guadalupe gualtiero gudmundur gudrun guido guilherme guillaume guillermo
guiomar gulsah gun gunilla gunnar gunnhildur gunter gunther guntis gustaf gustav gustavo gustaw
guy gwen gwendolyn gyongyi gyorgy gyula haakon habib hajnalka hakan hakon hal halil halina halla
halldor halvor hamid hamza hana hanako hanka hanna hanna-mari hannah hannamari hanne hanneke
hannele hannes hannu hans hansjorg hanspeter harald hariklia haris harm harmony harold harri
harriet harrison harry haruka haruki harvey hasan hassan hatice hayden hayley hazel heath
heather heba hector hedda hedvig hedwig hege heidi heidrun heike heikki heiko heiner heinrich
heinz heitor heleen helen helena helene helga helge helgi helle hellen helmer helmut helmuth
hendrik henk henning henri henrietta henriette henrik henrike henrique henry henryk henryka
herbert heribert herman hermann hermina hermine hernan hidde hijiri hilary hilda hilde hildegard
hildur hilkka hilma hina hiroko hiroshi hjalmar hjordis holger holly homero hong honorata hope
horst hortense hortensia howard hrafn hrvoje hubert hugh hugo hui hulda humberto hunor hunter
huseyin hussein hynek iain ian iara ibolya ibrahim ichiro ida idris ieva ifeoma ignacia ignacio
ignacy ignas ignasi ignatius igor iida iiro iker ikram ilan ilaria ilda ildi ildiko ileana ilga
ilhan ilia iliana ilie ilija ilkka illes ilma ilmari ilona ilse ilya ilze iman imants imke
immacolata imran imre ina inaki inara indira indre indrek indrikis ineke ines inessa inga inge
ingeborg ingemar inger ingibjorg ingmar ingo ingrid ingrida ingvar inigo inka inkeri inna
innokenty ioan ioana ion ionela ionut iosif ippolit iqbal ira irena irene ireneusz irina iris
irma irmgard isa isaac isabel isabell isabella isabelle isadora isak isidora isla ismael ismail
ismet isolde israel istvan itziar iulia iulian ivan ivana ivanka ivar ivars iveta ivica ivo
ivona ivonne ivy iwan iwona izabela izidor jaak jaakko jaan jaana jaap jacek jacinto jack jackie
jackson jaco jacob jacoba jacobus jacqueline jacques jade jadranka jadwiga jaime jaka jakob
jakov jakub jalmari jamal james jamie jamila jan jana jane janek janet janez janice janina
janine janis janja janka janko janna janne janneke jannik janos janus janusz jarek jari jarkko
jarmila jarmo jarno jaromir jaroslav jaroslava jaroslaw jarrod jasmin jasmina jasmine jasna
jason jasper javed javier jay jayden jean jeanette jeanne jeannette jedrzej jeff jeffrey
jekaterina jelena jelle jelmer jenna jenni jennie jennifer jenny jeno jens jerca jeremiah
jeremias jeremy jerko jerneja jeroen jerome jerry jerzy jesper jess jesse jessica jessie jesus
jette jill jim jimmy jindrich jing jiri jirina jiro jitka joachim joakim joan joana joanna
joanne joao joaquim joaquin jocelyn jochen jodi joel joelle joep joerg johan johana johann
johanna johanne johannes john johnathan johnny jolan jolana jolanda jolanta jolita jon jonah
jonas jonathan jonna joona joonas joost jordan jordi jorge jorgen joris jorn jorunn jos josef
josefa josefina josefine josep joseph josephine josette josh joshua josie josip josipa jost
josue jouni jovan jovana joy joyce jozef jozefa jozica jozsef juan juana juanita judit judith
judy juha juhan juhani juho jukka jules julia julian juliana juliane julianna julie julien
juliet julieta juliette julio julita julius jun june junko jurate jure jurgen jurgita juri
jurica juris jussi justin justina justine justyna jutta juuso jyrki jytte kaarel kaarina kadri
kai kaija kaisa kaito kaja kajetan kajsa kalervo kalev kalina kalle kalman kamil kamila kamile
kamilla kamran kaori karel karen kari karim karin karina karl karla karlis karlo karol karoliina
karolina karoly karsten kashif kasia kasimir kasper kata katalin katarina katarzyna kate
katerina katharina katherine kathleen kathrin kathryn kathy katie katinka katja katka katleen
kato katre katri katrin katrina katrine katy kauko kavita kay kaye kayla kazimierz kazuko kazuo
kazuya keiko keith kelly kelsey kemal ken kendra kenichi kenji kenneth kent kenta kerem kerli
kerry kerstin kestutis kevin khadija khaled khalid kiara kieran kiki kilian kim kimberly kinga
kira kiran kirill kirk kirsi kirsten kirsti kirstin kirsty kit kitti kjell kjersti klaas klara
klaudia klaudija klaus klavdiya klavs klemen klemens klementina knud knut koen kofi koji
kolbjorn kolbrun konrad konstantin konstantinos konstanty kora koray kornel kornelia kosta
kostas kresimir kris krista kristaps kristel kristen kristi kristian kristiina kristijan kristin
kristina kristine kristjan kristo kristof kristoffer kristyna krisztian krisztina krystian
krystyna krzysztof ksenia ksenija kseniya kuba kubilay kumar kumiko kurt kveta kwame kyle kylie
kyllikki kyosti kyriakos laboni lachlan ladislav ladislava laia laila laimonas lajos lakshmi lan
lana lance lane lara larisa larissa larry lars lasse laszlo latoya lauha laura laure laureen
laurel lauren laurence laurent laurentiu lauri laurie laurin lauritz laurynas lavinia lazar
lazaro lazlo lea leah leander leandro leanne lech leena lehel leho leif leigh leila leire lejla
lena lene lenka lennart lennox leo leokadia leon leona leonard leonardo leonel leonid leonie
leonor leonora leonore leopold lerato leroy leslaw lesley leslie leszek leticia letizia lev
levent levente levi lewis leyla lia liam liana libor libuse lidia lidija lidiya lieke liepa lies
liesbeth lieselotte lieve liisa lilian liliana liliane lilja lilla lilli lillian lillie lilly
lily lina linas lincoln linda lindsay lindsey ling linnea lino linus lionel lior lisa lisbet
lisbeth lise liselotte lisette lissa liv livia livio liz liza lizette ljiljana ljubica ljubisa
ljubomir ljudmila llorenc lloyd lluis lodewijk loes logan loic lois lola lone lora lorant lorea
loredana lorena lorenz lorenza lorenzo loreta loretta lori lorna lorraine lothar lotta lotte lou
louis louisa louise lourdes louwrens lovisa lovre lovro luan lubomir lubos luboslav luc luca
lucas lucia lucian luciana luciano lucie lucien lucija lucile lucille lucinda lucio lucjan
lucrezia lucy ludek ludger ludmila ludo ludovic ludovica ludvig ludwig ludwik luigi luigina luis
luisa luise luiza luka lukas lukasz luke luljeta luna lurdes lutz luz lydia lydie lykke lynda
lynn lynne lyubomir lyubov maaike maarika maarit maarja maarten maartje macarena machteld maciej
madalena madara madeleine madeline madhav madison mads magali magda magdalena magdolna maggie
magne magnea magnhild magnus maha mahmoud mahmut mahsa mai maia maialen maija maik maike mairead
maisie maite maj maja makoto maksim maksymilian malak malcolm malene malgorzata malik malin
malina malte malwina mandy manfred manish manja manjula manoj manolis manon manuel manuela mara
marc marcel marcela marceli marcelina marceline marcella marcelle marcello marcelo marcia marcin
marcio marco marcos marcus marek maren marfa marga margaret margareta margarete margarethe
margarida margarita margaux margherita margit margita margot margret margreta margrethe margriet
marguerite margus mari maria mariam marian mariana marianna marianne mariano maribel marica
marie marieke mariel mariella marielle marietta mariia marija marijan marijana marijke marijn
marijo marika mariken marilena marilyn marin marina marinela marinko marinus mario marion marios
maris marisa mariska marisol marit marita maritta maritza marius mariusz mariya marja marjan
marjana marjatta marjeta marjo marjolein marjorie marjut mark marketa markku marko markus marla
marleen marlen marlena marlene marlies marlon marnix marta marte marten martha marthe marti
martijn martim martin martina martine martins marton martti marty marvin mary maryam maryse
marzena masako masashi mason massimo matas mate matea matej mateja mateo mateus mateusz matheus
mathias mathieu mathilda mathilde mati matia matias matija matilda matilde matis matjaz matt
matteo matthew matthias matthieu matti mattia mattias matus matvei matyas maud maura maureen
maurice mauricio maurits maurizio mauro maurycy max maxim maxime maximilian maximiliano
maximilien maxine may maya mayra mayumi meera mehdi mehmed mehmet mei meike melania melanie
melek melih melina melinda melis melisa melissa melita melody melvin mercedes mercedesz mercy
meredith merel merete merit merja merle mert merve mervi meryem mette mia micaela micha michael
michaela michal michalina michalis michel michela michele michelle michiel mick mickael
mieczyslaw mieke mieszko miguel mihaela mihai mihail mihalis mihaly miho mijail mijo mika mikael
mikaela mike mikel mikey mikhail mikk mikkel mikko miklos mikolaj mila milada milan milana milda
mildred mile milena miles mileva milica miljenko milka milko milla millie milos miloslav
miloslava milosz mimi min mina mindaugas minea minna miodrag miquel mira mirabela miranda mircea
mirdza mireia mireille mirela mirella miren miriam mirja mirjam mirjana mirka mirko miro
miroslav miroslava miroslaw mirosław misaki misko mislav mitch mitchell mitja mitko mitsuko
miyuki mladen modestas mohamed mohammad mohammed mohan moira moises mojca momchil mona monica
monika monique montserrat morana morgan morgane moritz morten moshe mostafa mscislaw muhammad
muhammed murat muriel murilo mustafa myriam myrna myrthe nacho nada nadezda nadezhda nadia
nadine nadir nadja nadya nahia naida naim najat nancy nandor nanna naoki naoko naomi narcis
narcisa narcyz nasir nastja natale natalia natalie natalija nataliya natasa natascha natasha
nathalie nathan nathaniel navid nazim neal nebojsa neda nedeljko neha neil nela nele nelly
nelson nena nenad nerea nerijus neringa nermin neus nevena nevenka neville neza ngozi niall
niamh nicholas nicholle nick nicki nico nicola nicolaas nicolae nicolai nicolas nicole nicoleta
nicoletta nicolo nida nidal niek niels nienke nigel nihat niina nijole nika nikanor nike nikhil
nikita nikki niklas niko nikodem nikola nikolai nikolaj nikolaos nikolas nikolaus nikolay
nikoleta nikolett nikolina nikos niksa nils nilufer nina nino nives nnamdi noa noah noel noelia
noelle noemi nomsa noor noora nora norbert norberto noreen noriko norma norman nova nuno nuray
nurcan nuri nuria obinna octavia octavian octavio odalys odd oddvar ofelia ognjen oisin oistein
oksana ola olaf olafur olaia olav oldrich ole oleg oleksandr oleksiy olena olesya olga olgierd
olimpia olive oliver olivera olivia olivier oliwia olle olof olu oluwaseun omar omer ondrea
ondrej onni oona orazio orhan oriol orlando ornella orsolya orvokki osama oscar oskar osman osmo
osvaldo oswald otakar otavio othmar otilia otilie otso ottavio ottilia ottilie otto outi ove
owen oystein oyvind ozan ozge ozlem paavo pablo paco paivi pal palina pallavi palle paloma
pamela panagiotis panu paola paolo paris parker pascal pascale paschalis pascual pasi pasquale
pat patience patrice patricia patricija patricio patrick patrik patrizia patrycja patryk pau
paul paula paulette paulina pauline paulius paulo pavel pavla pavle pavlina pavol pawel peadar
pearl pedja pedro peeter peggy peio peka pekka pelin pelle penelope penny pepijn peppi per pere
perica pero perrine persida perttu petar pete peter peteris petr petra petri petrica petronela
petros petru petrus petter petteri phil philip philipp philippa philippe phillip phoebe phoenix
phyllis pia piedad pieke pierce pierre pierrick piet pieter pietro piia pilar pim ping piotr
pippa piret pirita pirjo pirkka pirkko piroska plamen pleun polina polona pooja poppy porter
poul povl pradeep prakash praskovya preben predrag preeti premysl priit primoz priscila priya
priyanka prokhor prokop przemyslaw qing quentin quincy quinten quirijn rabia rachel rachelle
radek radim radka radmila radomir radoslav radoslaw radovan radu rafael rafaela rafal raffaele
raffaella ragna ragnar ragnhild rahel rahul raija raimo raimonda raimonds raimund raine rainer
raisa raivo raj rajesh rajiv rakesh ralf ralitsa ralph ramazan ramin raminta ramiro ramon ramona
ramunas ramune randi randy raoul raphael raquel rasa rashid rasim rasmus ratko raul rauno ravi
ravil ray raymond raymonda razvan rebecca rebeka rebekka recep redzep reed reem regina reginald
regine regis reidar reidun reijo reiko reima reinaldo reine reiner reinhard reinhold reinier
reinis reino reka rekha remco remedios remi remigiusz remus remy rena renaat renan renars renata
renate renato renaud rene renee rens renske reto rhonda rhys ricarda ricardo riccardo rich
richard rick rickard ricky rihards riikka rik rikard rikke riku rimantas rin rina rinaldo ringo
risto rita ritu ritva rizwan roald rob robbe robbert robert roberta roberto robin rocio rocky
rod roderick rodica rodion rodney rodolfo rodrigo roelof roger rogerio rogier rohan rohit rok
roksana roland rolanda rolando rolf romain roman romana romane romeo romina romuald romualdas
romy ron ronald ronaldo ronan rong ronja ronnie rony roope roos roosa rosa rosalba rosalia
rosalie rosalind rosalinda rosamund rosana rosangela rosanna rosaria rosario rose roseanne
rosemarie rosemary rosetta rosie rosina rosita ross rostislav roswitha roumen rowan roxana
roxane roxanne roy roza rozalia rozalija ruben rubens ruby rudi rudolf rudy ruediger rufus rui
rumen runa rune rupert ruslan russell rusty rut ruta ruth ruud ruxandra ruza ruzica ryan ryo
ryszard ryszarda rytis saana saara sabina sabine sabri sabrina saburo sacha sachiko sachin sadie
safiye said sakari sakura salih salla sally salma salome salvador salvatore sam samantha samara
sami samir samira sammy samo sampo samuel samuele samuli sana sandeep sander sandis sandor
sandra sandrine sandro sandy sanja sanjay sanna sanne santeri santiago sara sarah sari sarita
sarka sarolta sasa sascha saskia satoshi satu saul saule savannah savas saverio savva scarlet
scott sean sebastian sebastiano sebastien sebnem secil seda sedat sefa seija selcuk selena selim
selin selina selma selman sem semih semyon senad senem senka seppo serafima serafin serafina
serap serena serge sergei sergej sergey sergi sergio sergiu serhat serhiy serife serkan servane
sevda severin sevgi seweryn seyma shan shane shannon sharon shaun shauna shawn sheila shelley
shelly sherry shigeru shintaro shirley shivani shona shota shreya sibylle sidney siegfried
sieglinde siegmund siegrid siem siglinde sigmund signe sigrid sigridur sigrun sigurd sigurdur
sigve siiri silje silke sille silvana silvester silvia silvie silvija silvije silvio sima simeon
simo simon simona simone simonetta sina sinan sindre sine sinead sini sinikka sinisa siobhan
sipho siri sirje sirkka sirpa sissel siv sixten sjoerd slavica slavko slavomir slawomir slobodan
slobodanka sneha snezana snjezana snorri soeren sofia sofie sofija soheila sohvi soile solange
soledad soley solvei solveig solvi soma sona sondre sonia sonja sophia sophie soren sorin sorina
spartak spela spencer spiros spyros srdan srdjan srecko stacey stacy stan stana stanislav
stanislava stanislaw stanislawa stanka stanko stavros stefan stefana stefani stefania stefanie
stefano stefanos steffen steffi stein steinar steinunn stela stelian stelios stella sten stepan
stephan stephane stephanie stephen sterling stevan steve steven stewart stian stig stijepan
stijn stina stine stipan stipe stipo stjepan stoyan stuart sture styrbjorn suad subhash sue
sulev suleyman sulo sumeyye sumiko suna sune sunil sunniva suresh susan susana susann susanna
susannah susanne susie suvi suzana suzanne suzette suzuki svante svein sveinn sven svend svenja
sverre svetlana svetozar svjetlana svyatoslav swati sybille sydney sylvain sylvester sylvia
sylviane sylvie sylwester sylwia synnove szabina szabolcs szilard szilvia szymon tadas tadashi
tadej tadeja tadeu tadeusz tahir taina tais taisiya taisto takashi takeshi takis takumi talia
tamar tamara tamas tamsin tanel taneli tanguy tania tanja tanvi tanya tapani tapio tara taras
tarcisio tarik tariq tarja tarmo taru tatiana tatjana tatyana tauno taylor ted teemu teet tekla
telma tendai teo teodor teodora teodoro teofil terence teresa terese teresita tereza terezia
terezie terhi terho teri terje tero terrence terri terry terttu tessa tetsuya teun teuvo thabo
thaddeus thais thanasis thea thelma themba theo theodor theodora theodore theodoros theresa
therese theresia thiago thibault thibaut thierry thies thijs thomas thor thora thorben thordis
thore thorsteinn thorsten thorvald tiago tiana tibor tiemo tiffany tihana tihomir tiia tiina
tiit tijana tikhon til till tilly tilman tim timo timofei timothy timur tina tineke ting tino
tiril tiziana tjark tjasa tjeerd tobias tobiasz toby todd todor toivo tolga tom toma tomas
tomasz tomaz tome tomi tomislav tommaso tommy tomo tomoko tomomi tone toni tonje tonny tonu tony
toomas topi tor torben torbjorn tord tore torgeir torill torkel torleif tormod torstein torsten
torvald toshi toshiko tove tracey tracy travis trevor triin trine tristan trond troy trudy truls
truus tryggvi trygve tudor tuija tuncay tunde tuomas tuomo tuovi turid turul tuukka tuula tuuli
tycho tyler tymon tyra tyrone tytti ubul udo ugnius ugo ugur uku ulf uliana ulla ulrich ulrik
ulrika ulrike ulyana umberto umit umut una unai unni unnur uno urban urho uros urs ursa urska
ursula urszula urte urve usko usman uta ute utku uwe vaclav vadim valdas valdemar valdis
valentin valentina valentyna valeria valerie valerij valerio valery valgerdur valter valtteri
valtyr van vanesa vanessa vanja vanya vappu varun varvara vasco vasil vasile vasilica vasiliki
vasilios vasilisa vasily vasja vassilis vasyl vedran veera vegard veikko veiko velimir velma
vendula veniamin venla vera verena verica verner vernon verona veronica veronika veronique vesa
vesna vibeke vicenta vicente vicki vicky victoire victor victoria victoriano vidar vidas
vidmantas vieno viesturs vigdis viggo viire viive vijay vikas vikram viktor viktoria viktorija
vilco vildana vilhelm vilhjalmur vilho vilius viljar viljo villads ville vilma vilmos viltaute
vinca vincas vincent vincente vincenza vincenzo vinicius vinko vinod viola violet violeta
violetta viorel viorica virag virgil virgilijus virgilio virginia virginie virginija virpi virve
vishal visnja vit vita vitalij vitaly vitas vitezslav vito vitor vitoria vittoria vittorio
viveca viveka vivian viviana viviane vivien vivienne vlad vlada vladan vladas vladimir vladimira
vladislav vladislava vladka vladko vlado vlasta vlastimil vlatka vlatko voitto vojtech volkan
volker volodymyr vratislav vsevolod vuk vukasin vytautas waclaw wade wafa wagner waldemar walid
wally walter waltraud wanda warren wawrzyniec wayne wei wenche wendel wendelin wendy wenke
werner weronika wesley whitney wiebke wieslaw wieslawa wiktor wiktoria wilbert wilfred wilfried
wilhelm wilhelmina wilhelmine will willem willemijn willemine willi william willibald willow
willy wilma wim winfried winifred winston witold wladyslaw wlodzimierz wojciech wolf wolfgang
wolfram wouter xander xaver xavi xavier xenia xiao ximena xin yael yago yakov yakup yan yana
yanick yann yannick yannis yara yaroslav yasar yasemin yash yasin yasir yasmin yasmina yasmine
yavuz yaw yefim yegor yehuda yelena yeliz yesim yevgeny yiannis yigit yoan yoana yoko yolanda
yolande yordan yorgos yosef yoshiko yosuke youssef yrjo ysbrand yuki yukiko yulia yuliya yun
yunus yuri yuriy yusuf yves yvette yvonne zachary zainab zaira zak zala zan zana zanele zara
zarko zbigniew zbynek zdena zdenek zdenka zdenko zdislaw zdravko zdzislaw zehra zeina zeki zelda
zeljka zeljko zenon zenona zeynep zhanna zhen ziga zigmunds zilvinas zinaida zita zivile zlata
zlatan zlatko zoe zofia zofie zola zoltan zora zoran zorana zorica zoya zsanett zsigmond zsofia
zsolt zsombor zsuzsa zsuzsanna zubair zuzana zuzanna zvonimir zvonko zydrunas zygmunt
"""
)

AMBIGUOUS = table(
    """
adelaide alba alexa amber amparo angel anis april ari art asa august aurora axel basil beat bill
bo brooke carol carolina casey catalina charlotte chase chelsea christian chuck clement clint
cosima crystal dale dallas dawn dean devon dolores don drew edu elif else emir eve faith
felicity fidel finn fleur floor flor flora florence florin frank gene georgia glen gloria grace
grant grazia guadalupe gun guy hal harmony heath heather holly hope hunter ida ina ion ira iris
isa isla israel ivy jack jackson jade jan jasmine jay jean jesus jill jordan joy june kai kay
ken kent kim kit kris lana lance lane laurel laurie leigh leon leona lies lily lincoln liv logan
lone lou lourdes luna luz madison mai maj mara marin marina mario mark mason max may mei melody
mercedes mercy merit milan mile miles mimi min montserrat morgan narcis nelson nike noel nova
octavia odd ola ole olive orlando oscar otto owen pal paris parker pascal pat patience pearl
penny per phoenix pierce pilar ping poppy porter randy ray reed rene rich ringo rob robin rocky
rod roman roos rosa rosario rose ross rowan roy ruby rudy rune rusty said salvador sam sander
sandy santiago saul savannah scarlet scott selena sidney sine siri sofia soma stan stella
sterling sue sydney taylor terry tiffany til till tome tone tor tore trine troy tyler una uno
urban van vera verona victor victoria viola violet virginia vita vito wade wally warren will
willow wolf wolfram yuki
"""
)
"""Given names that are words, places or surnames as well; alone they say nothing."""
